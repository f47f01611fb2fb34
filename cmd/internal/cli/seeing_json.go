package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/go-curator/curator/inspect"
)

// The JSON of the commands that only read. Sessions are text, since they do not fit into the numbers of other
// languages; times are in the form of RFC 3339. The names are documented in docs/cli.md, and stay.

type jsonLine struct {
	Path     string            `json:"path"`
	Kind     inspect.Kind      `json:"kind"`
	Holders  []jsonParticipant `json:"holders"`
	Waiting  []jsonParticipant `json:"waiting"`
	More     int               `json:"more,omitempty"`     // participants that were not read
	Children int               `json:"children,omitempty"` // of the node
	Foreign  []string          `json:"foreign,omitempty"`
	Strange  int               `json:"foreignCount,omitempty"`
	Max      int               `json:"max,omitempty"`
	Number   *int64            `json:"number,omitempty"`
	Used     int64             `json:"numbersUsed,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
}

type jsonParticipant struct {
	Node    string          `json:"node"`
	Library inspect.Library `json:"library,omitempty"`
	Reader  bool            `json:"reader,omitempty"`
	Since   *time.Time      `json:"since,omitempty"` // by the servers' clock
	Session string          `json:"session,omitempty"`
	Client  string          `json:"client,omitempty"` // its address, if the servers report it
	Token   int64           `json:"token,omitempty"`
	Data    string          `json:"data,omitempty"`       // if it is text
	Bytes   []byte          `json:"dataBase64,omitempty"` // if it is not
	Length  int             `json:"dataLength,omitempty"`
	Revoked bool            `json:"revoked,omitempty"`
	Unread  string          `json:"error,omitempty"` // why its data cannot be read
}

func sessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint64(id))
}

func (s *readCommand) jsonLine(l inspect.Line) jsonLine {
	return jsonLine{Path: l.Path, Kind: l.Kind, Holders: s.jsonParticipants(l.Holders),
		Waiting: s.jsonParticipants(l.Waiting), More: l.More, Children: l.Children, Foreign: l.Foreign,
		Strange: l.ForeignCount, Max: l.Max, Number: l.Number, Used: l.NumbersUsed, Notes: l.Notes}
}

func (s *readCommand) jsonParticipants(all []inspect.Participant) []jsonParticipant {
	found := make([]jsonParticipant, 0, len(all)) // [] rather than null
	for _, p := range all {
		j := jsonParticipant{Node: p.Path, Library: p.Library, Reader: p.Reader, Session: sessionText(p.Session),
			Client: s.connected.By[p.Session].Client, Token: p.Token, Length: p.DataLength, Revoked: p.Revoked}
		if !p.Since.IsZero() {
			since := p.Since.UTC()
			j.Since = &since
		}
		if utf8.Valid(p.Data) {
			j.Data = string(p.Data)
		} else {
			j.Bytes = p.Data
		}
		if p.Err != nil {
			j.Unread = p.Err.Error()
		}
		found = append(found, j)
	}
	return found
}

// encodeJSON is a value as JSON, in one line.
func encodeJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // they are our own types
	}
	return string(text)
}

// printJSON writes values as JSON: one document with the first for json, a line for each of all for jsonl.
func (s *readCommand) printJSON(document any, each ...any) error {
	to := s.cmd.OutOrStdout()
	if s.output == "json" {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		return encoder.Encode(document)
	}
	for _, value := range each {
		if _, err := io.WriteString(to, encodeJSON(value)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// printChange writes a line of JSON with the present time.
func (s *readCommand) printChange(l jsonLine) error {
	_, err := io.WriteString(s.cmd.OutOrStdout(), encodeJSON(struct {
		At time.Time `json:"at"`
		jsonLine
	}{time.Now().UTC(), l})+"\n")
	return err
}
