package inspecthttp

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
)

// shownText returns s as it may be shown: printable, and at most so many characters.
func shownText(s string, most int) string {
	s = plain.Text(s)
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == most {
			return s[:i] + "…"
		}
	}
	return s
}

// sessionText returns a session's id as servers write it in their logs.
func sessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("0x%x", uint64(id))
}

func viewParticipant(p inspect.Participant) participantView {
	v := participantView{Key: p.Token, Name: shownText(p.Name, 200), Session: sessionText(p.Session),
		Data: shownText(string(p.Data), 200), Library: p.Library, Reader: p.Reader, Revoked: p.Revoked}
	if len(p.Data) == 0 {
		v.Length = p.DataLength
	}
	if !p.Since.IsZero() {
		v.Since = p.Since.UnixMilli()
	}
	if err := p.Err; err != nil {
		var op *framework.OpError
		if errors.As(err, &op) {
			err = op.Err // the node's name is shown with it
		}
		v.Error = shownText(err.Error(), 200)
	}
	return v
}

// viewWithSession returns a participant with the state of its session.
func (t reportedSessions) viewWithSession(p inspect.Participant) participantView {
	v := viewParticipant(p)
	since, away := t.silentSince(p)
	if v.Away = away; !since.IsZero() {
		v.SilentSince = since.UnixMilli()
	}
	return v
}
