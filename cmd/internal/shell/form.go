package shell

import (
	"bytes"
	"encoding/base64"
	hexes "encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/go-curator/curator/framework"
)

// dataForm is the form of printed data.
type dataForm struct {
	gunzip bool
	form   string
}

const forms = "text, hex, json, gunzip or raw, or gunzip and one of the others: gunzip,json"

func (a *dataForm) formFlag(f *pflag.FlagSet) {
	a.form = "raw"
	f.Var(a, "as", "print data as `text|hex|json|gunzip|raw`, or gunzip,json and the like; "+
		"raw is the bytes as they are, and text on a terminal")
}

func (a *dataForm) Type() string { return "string" }
func (a *dataForm) String() string {
	if a.gunzip {
		return strings.TrimSuffix("gunzip,"+a.form, ",raw")
	}
	return a.form
}

func (a *dataForm) Set(s string) error {
	set := dataForm{form: "raw"}
	parts := strings.Split(s, ",")
	if parts[0] == "gunzip" {
		set.gunzip, parts = true, parts[1:]
	}
	switch {
	case len(parts) == 0:
	case len(parts) == 1 && slices.Contains([]string{"text", "hex", "json", "raw"}, parts[0]):
		set.form = parts[0]
	default:
		return fmt.Errorf("give %s", forms)
	}
	*a = set
	return nil
}

// dataBuilder returns a builder that reads data for this form.
func (a *dataForm) dataBuilder(client *framework.Client) framework.GetDataBuilder {
	if a.gunzip {
		return client.GetData().Decompressed()
	}
	return client.GetData()
}

// printedData is data as they are printed for people, or, in raw form and not to a terminal, as they are.
func (a *dataForm) printedData(data []byte, terminal bool) (string, error) {
	switch {
	case a.form == "hex":
		return hexes.Dump(data), nil
	case a.form == "json":
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return "", notJSON(err)
		}
		return endLine(inJSON(b.String())), nil
	case a.form == "text" || terminal:
		return endLine(printableText(string(data))), nil
	}
	return string(data), nil
}

func notJSON(err error) error {
	return negativeError("the data are not JSON (%w): print them with --as text or --as hex", err)
}

// endLine ends the text with a line break, if there is any.
func endLine(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// jsonContent is data in JSON: by default as text if they are, and else in base64.
type jsonContent struct {
	Text   *string         `json:"text,omitempty"`
	Base64 string          `json:"base64,omitempty"`
	Hex    *string         `json:"hex,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
}

func (a *dataForm) jsonContentOf(data []byte) (c jsonContent, err error) {
	switch {
	case a.form == "hex":
		s := hexes.EncodeToString(data)
		c.Hex = &s
	case a.form == "json":
		if err := json.Unmarshal(data, &c.JSON); err != nil {
			return c, notJSON(err)
		}
	case utf8.Valid(data):
		s := string(data)
		c.Text = &s
	default:
		c.Base64 = base64.StdEncoding.EncodeToString(data)
	}
	return c, nil
}
