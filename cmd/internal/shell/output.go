package shell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/framework"
)

// outputForm is the form of a command's output: a table for people, or JSON.
type outputForm struct{ form string }

func (o *outputForm) formFlag(f *pflag.FlagSet) {
	o.form = "table"
	f.VarP(o, "output", "o", "`table|json|jsonl`: text for people, one JSON value, or one for each line")
}

func (o *outputForm) String() string { return o.form }
func (o *outputForm) Type() string   { return "string" }
func (o *outputForm) Set(s string) error {
	switch s {
	case "table", "json", "jsonl":
		o.form = s
		return nil
	}
	return fmt.Errorf("give table, json or jsonl")
}

func (o *outputForm) table() bool { return o.form == "table" }

// stdout is the command's standard output, guarded if it is a terminal.
func stdout(cmd *cobra.Command) io.Writer {
	out := cmd.OutOrStdout()
	if isTerminal(out) {
		return &safeTerminal{to: out}
	}
	return out
}

// printValue prints a value.
func (o *outputForm) printValue(cmd *cobra.Command, v any, table func(w io.Writer)) error {
	if o.table() {
		return alignColumns(cmd, table)
	}
	return o.printJSON(stdout(cmd), v)
}

// printJSON prints a value: over several lines, or with jsonl in one.
func (o *outputForm) printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if o.form == "json" {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, inJSON(b.String()))
	return err
}

// printValues prints a list of values: with jsonl each in a line.
func printValues[T any](o *outputForm, cmd *cobra.Command, list []T, table func(w io.Writer)) error {
	if o.form != "jsonl" {
		if list == nil {
			list = []T{}
		}
		return o.printValue(cmd, list, table)
	}
	w := stdout(cmd)
	for _, v := range list {
		if err := o.printJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// alignColumns prints text whose columns, which tabs separate, are aligned.
func alignColumns(cmd *cobra.Command, table func(w io.Writer)) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	table(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := stdout(cmd).Write(b.Bytes())
	return err
}

// statMetadata is a Stat as JSON. Transactions and sessions are in hexadecimal, as in the servers' own logs.
type statMetadata struct {
	Version        int32     `json:"version"`
	ChildVersion   int32     `json:"cversion"`
	ACLVersion     int32     `json:"aversion"`
	Length         int32     `json:"length"`
	Children       int32     `json:"children"`
	Created        time.Time `json:"created"`
	Modified       time.Time `json:"modified"`
	Czxid          string    `json:"czxid"`
	Mzxid          string    `json:"mzxid"`
	Pzxid          string    `json:"pzxid"`
	EphemeralOwner string    `json:"ephemeralOwner,omitempty"`
}

func metadataOf(s framework.Stat) statMetadata {
	m := statMetadata{s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren, s.Created().UTC(),
		s.Modified().UTC(), hexText(s.Czxid), hexText(s.Mzxid), hexText(s.Pzxid), ""}
	if s.EphemeralOwner != 0 {
		m.EphemeralOwner = hexText(s.EphemeralOwner)
	}
	return m
}

func hexText(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// firstPart is the beginning of a text, in one line.
func firstPart(s string, most int) string {
	if len(s) > most {
		return printableName(s[:most]) + "…"
	}
	return printableName(s)
}
