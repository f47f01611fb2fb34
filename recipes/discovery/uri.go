package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// URISpec is the form of an instance's URI: text with fields in braces, such as "{scheme}://{address}:{port}/status".
// The fields are scheme (https if the instance has an SSL port, else http), name, id, address, port, ssl-port,
// registration-time-utc, service-type, [ and ] (which stand for braces), and the values given to [Instance.URI]. An
// unknown field, or one without a value, is empty. In the URI's host, an IPv6 address is in brackets; Curator adds
// none.
//
// Corresponds to Curator's UriSpec.
type URISpec string

// part is a field, or the text between two fields, as in the JSON.
type part struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

var errBraces = errors.New("a field ends with its brace, and there is no brace in it")

// splitParts splits the spec, as Curator does.
func (u URISpec) splitParts() (all []part, err error) {
	all = []part{}
	for rest := string(u); rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			return append(all, part{rest, false}), nil
		}
		if at > 0 {
			all = append(all, part{rest[:at], false})
		}
		if rest[at] == '}' {
			return nil, fmt.Errorf("the URI spec %q: %w", string(u), errBraces)
		}
		rest = rest[at+1:]
		end := strings.IndexAny(rest, "{}")
		if end < 0 || rest[end] == '{' {
			return nil, fmt.Errorf("the URI spec %q: %w", string(u), errBraces)
		}
		if end > 0 {
			all = append(all, part{trimLikeJava(rest[:end]), true})
		}
		rest = rest[end+1:]
	}
	return all, nil
}

// trimLikeJava returns the result of Java's trim.
func trimLikeJava(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

func joinParts(parts []part) (URISpec, error) {
	var text strings.Builder
	for _, p := range parts {
		switch {
		case !p.Variable:
			for _, r := range p.Value {
				switch r {
				case '{':
					text.WriteString("{[}")
				case '}':
					text.WriteString("{]}")
				default:
					text.WriteRune(r)
				}
			}
		case strings.ContainsAny(p.Value, "{}"):
			return "", fmt.Errorf("the field %q of the URI spec: %w", p.Value, errBraces)
		case trimLikeJava(p.Value) != "":
			text.WriteString("{" + trimLikeJava(p.Value) + "}")
		}
	}
	return URISpec(text.String()), nil
}

// uriAddress returns an address for a URI. An IPv6 address, with or without brackets, gets them in the URI's host,
// where the percent sign of its zone is escaped.
func uriAddress(a string, host bool) string {
	bare := strings.Trim(a, "[]")
	if at, err := netip.ParseAddr(bare); err != nil || !at.Is6() {
		return a
	}
	if !host {
		return bare
	}
	return "[" + strings.Replace(bare, "%", "%25", 1) + "]"
}

func (u URISpec) buildURI(value func(field string) string) string {
	parts, err := u.splitParts()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for i, p := range parts {
		switch {
		case !p.Variable:
			text.WriteString(p.Value)
		case p.Value == "address":
			before, port := text.String(), i+1 < len(parts) && strings.HasPrefix(parts[i+1].Value, ":")
			host := before == "" && port || strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@")
			text.WriteString(uriAddress(value(p.Value), host))
		case p.Value == "[":
			text.WriteString("{")
		case p.Value == "]":
			text.WriteString("}")
		default:
			text.WriteString(value(p.Value))
		}
	}
	return text.String()
}
