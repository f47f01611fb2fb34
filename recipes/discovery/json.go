package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/plain"
)

// instanceJSON is an instance in the layout of Curator's JsonInstanceSerializer: these keys, in this order.
type instanceJSON struct {
	Name             string          `json:"name"`
	ID               string          `json:"id"`
	Address          *string         `json:"address"`
	Port             *int            `json:"port"`
	SSLPort          *int            `json:"sslPort"`
	Payload          json.RawMessage `json:"payload"`
	RegistrationTime int64           `json:"registrationTimeUTC"`
	Type             string          `json:"serviceType"`
	URISpec          *uriSpecJSON    `json:"uriSpec"`
	Enabled          *bool           `json:"enabled,omitempty"`
}

type uriSpecJSON struct {
	Parts []part `json:"parts"`
}

// encodeInstance returns the instance's data. class is the Java class of its payload, or empty.
func encodeInstance[T any](i Instance[T], class string) ([]byte, error) {
	if err := i.checkFields(); err != nil {
		return nil, err
	}
	payload, err := encodePayload(i.Payload, class)
	if err != nil {
		return nil, fmt.Errorf("%w: the payload: %w", ErrInvalidInstance, err)
	}
	w := instanceJSON{Name: i.Name, ID: i.ID, Payload: payload, Type: i.Type.String(),
		Address: pointerUnlessZero(i.Address), Port: pointerUnlessZero(i.Port), SSLPort: pointerUnlessZero(i.SSLPort),
		RegistrationTime: toMillis(i.RegistrationTime)}
	if i.URISpec != "" {
		parts, _ := i.URISpec.splitParts() // was checked
		w.URISpec = &uriSpecJSON{parts}
	}
	if i.Disabled {
		w.Enabled = new(bool)
	}
	text, err := marshalJSON(w)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidInstance, err)
	}
	return escapeAsJackson(text), nil
}

func pointerUnlessZero[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

// decodeInstance decodes an instance that a client of any language wrote. As in Java, unknown keys are ignored, none is
// required, and keys are matched exactly. owner is the session of the node, 0 for none.
func decodeInstance[T any](data []byte, owner int64) (i Instance[T], err error) {
	if i, err = parseInstance[T](data, owner); err != nil {
		return Instance[T]{}, fmt.Errorf("%w: %w", ErrCorrupt, plain.Error(err))
	}
	return i, nil
}

func parseInstance[T any](data []byte, owner int64) (i Instance[T], err error) {
	var fields map[string]json.RawMessage // a struct's keys would match in any case
	if err := json.Unmarshal(data, &fields); err != nil {
		return i, err
	}
	if fields == nil {
		return i, fmt.Errorf("null")
	}
	var ms int64
	typeName, spec, enabled := "", uriSpecJSON{}, true
	for _, f := range []struct {
		key  string
		into any
	}{
		{"name", &i.Name}, {"id", &i.ID}, {"address", &i.Address}, {"port", &i.Port}, {"sslPort", &i.SSLPort},
		{"registrationTimeUTC", &ms}, {"serviceType", &typeName}, {"uriSpec", &spec}, {"enabled", &enabled},
	} {
		if text, ok := fields[f.key]; ok {
			if err := json.Unmarshal(text, f.into); err != nil { // null leaves the value unchanged
				return i, fmt.Errorf("%s: %w", f.key, err)
			}
		}
	}
	for _, port := range []int{i.Port, i.SSLPort} {
		if port < math.MinInt32 || port > math.MaxInt32 {
			return i, fmt.Errorf("the port %d", port)
		}
	}
	at := slices.Index(typeNames[:], cmp.Or(typeName, Dynamic.String()))
	if at < 0 {
		return i, fmt.Errorf("serviceType: there is no %q", typeName)
	}
	if dynamic := typeName != "" && Type(at) != Static && Type(at) != Permanent; dynamic && owner == 0 {
		return i, fmt.Errorf("the serviceType is %s, but the node belongs to no session, which would go with the process",
			typeName)
	}
	i.Type, i.RegistrationTime, i.Disabled = Type(at), fromMillis(ms), !enabled
	if i.URISpec, err = joinParts(spec.Parts); err != nil {
		return i, err
	}
	if payload, ok := fields["payload"]; ok {
		if err := decodePayload(payload, &i.Payload); err != nil {
			return i, fmt.Errorf("payload: %w", err)
		}
	}
	return i, nil
}

const arrayClass = "java.util.ArrayList"

func encodePayload[T any](payload T, class string) (json.RawMessage, error) {
	if raw, ok := any(payload).(json.RawMessage); ok {
		if raw == nil {
			return json.RawMessage("null"), nil
		}
		if !json.Valid(raw) {
			return nil, fmt.Errorf("it is not JSON")
		}
		return raw, nil
	}
	text, err := marshalJSON(payload)
	if err != nil {
		return nil, err
	}
	if class == "" && text[0] == '[' {
		class = arrayClass
	}
	if class == "" || string(text) == "null" {
		return text, nil
	}
	name, err := marshalJSON(class)
	if err != nil {
		return nil, err
	}
	if text[0] != '{' {
		return slices.Concat([]byte("["), name, []byte(","), text, []byte("]")), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if _, hasClass := fields["@class"]; hasClass {
		return text, nil
	}
	head := slices.Concat([]byte(`{"@class":`), name)
	if len(fields) > 0 {
		head = append(head, ',')
	}
	return append(head, text[1:]...), nil
}

// decodePayload decodes a payload without Jackson's type information.
func decodePayload[T any](text json.RawMessage, into *T) error {
	if raw, ok := any(into).(*json.RawMessage); ok {
		*raw = bytes.Clone(text)
		return nil
	}
	if text[0] == '[' {
		var pair []json.RawMessage
		if err := json.Unmarshal(text, &pair); err != nil {
			return err
		}
		if len(pair) == 2 && pair[0][0] == '"' {
			text = pair[1]
		}
	} else if text[0] == '{' && acceptsAnyKey(reflect.TypeFor[T]()) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return err
		}
		if _, hasClass := fields["@class"]; hasClass {
			delete(fields, "@class")
			text, _ = json.Marshal(fields) // was read from JSON
		}
	}
	return json.Unmarshal(text, into)
}

func acceptsAnyKey(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Map || t.Kind() == reflect.Interface
}

// marshalJSON is json.Marshal without escapes for HTML, which Java does not make.
func marshalJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// escapeAsJackson returns JSON with Jackson's escapes: control characters with capital hex digits, and code points
// above U+FFFF as two surrogates. text must be valid JSON, in which each backslash begins an escape.
func escapeAsJackson(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		c := text[at]
		if c == '\\' && text[at+1] != 'u' {
			out = append(out, text[at:at+2]...)
			at += 2
			continue
		}
		if c == '\\' {
			n, _ := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
			at += 6
			if r := rune(n); r < ' ' || r == '"' || r == '\\' || utf16.IsSurrogate(r) {
				out = fmt.Appendf(out, `\u%04X`, n)
			} else {
				out = utf8.AppendRune(out, r)
			}
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if r > 0xFFFF {
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04X\u%04X`, high, low)
		} else {
			out = append(out, text[at:at+size]...)
		}
		at += size
	}
	return out
}
