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

// output is the form of a command's output: a table for people, or JSON.
type output struct{ form string }

func (o *output) flag(f *pflag.FlagSet) {
	o.form = "table"
	f.VarP(o, "output", "o", "`table|json|jsonl`: text for people, one JSON value, or one for each line")
}

func (o *output) String() string { return o.form }
func (o *output) Type() string   { return "string" }
func (o *output) Set(s string) error {
	switch s {
	case "table", "json", "jsonl":
		o.form = s
		return nil
	}
	return fmt.Errorf("give table, json or jsonl")
}

func (o *output) table() bool { return o.form == "table" }

// stdout is the command's standard output, guarded if it is a terminal.
func stdout(cmd *cobra.Command) io.Writer {
	out := cmd.OutOrStdout()
	if isTerminal(out) {
		return &safe{to: out}
	}
	return out
}

// one prints a value.
func (o *output) one(cmd *cobra.Command, v any, table func(w io.Writer)) error {
	if o.table() {
		return tabled(cmd, table)
	}
	return o.json(stdout(cmd), v)
}

// json prints a value: over several lines, or with jsonl in one.
func (o *output) json(w io.Writer, v any) error {
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

// all prints a list of values: with jsonl each in a line.
func all[T any](o *output, cmd *cobra.Command, list []T, table func(w io.Writer)) error {
	if o.form != "jsonl" {
		if list == nil {
			list = []T{}
		}
		return o.one(cmd, list, table)
	}
	w := stdout(cmd)
	for _, v := range list {
		if err := o.json(w, v); err != nil {
			return err
		}
	}
	return nil
}

// tabled prints text whose columns, which tabs separate, are aligned.
func tabled(cmd *cobra.Command, table func(w io.Writer)) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	table(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := stdout(cmd).Write(b.Bytes())
	return err
}

// metadata is a Stat as JSON. Transactions and sessions are in hexadecimal, as in the servers' own logs.
type metadata struct {
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

func metadataOf(s framework.Stat) metadata {
	m := metadata{s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren, s.Created().UTC(),
		s.Modified().UTC(), hex(s.Czxid), hex(s.Mzxid), hex(s.Pzxid), ""}
	if s.EphemeralOwner != 0 {
		m.EphemeralOwner = hex(s.EphemeralOwner)
	}
	return m
}

func hex(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }

func when(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// first is the beginning of a text, in one line.
func first(s string, most int) string {
	if len(s) > most {
		return name(s[:most]) + "…"
	}
	return name(s)
}
