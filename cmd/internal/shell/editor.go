package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

var (
	errInterrupted = errors.New("interrupted") // Ctrl-C
	errEnd         = errors.New("end")         // Ctrl-D
)

// lineEditor reads lines from a terminal. That is golang.org/x/term, which the Go team maintains and which is a
// dependency already, with completion, a search in the history by Ctrl-R, and Ctrl-C distinguished from the end.
type lineEditor struct {
	in, out  *os.File
	history  *lineHistory
	complete func(line string) (newLine, show string)

	mu       sync.Mutex
	terminal *term.Terminal // guarded by mu; of the line that is being edited, nil between lines

	ahead []byte // read beyond the line

	// Of the line that is being edited: whether Ctrl-C was typed, and what Ctrl-R looks for and has found.
	interrupted bool
	sought      string
	found       string
	back        int
}

func newEditor(in, out *os.File, history *lineHistory, complete func(string) (string, string)) *lineEditor {
	return &lineEditor{in: in, out: out, history: history, complete: complete}
}

// readLine reads a line: errInterrupted after Ctrl-C, errEnd after Ctrl-D or when the terminal is gone. When ctx ends it
// returns immediately, and leaves a read of the terminal behind, which takes the next input.
func (e *lineEditor) readLine(ctx context.Context, prompt string) (string, error) {
	before, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(e.in.Fd()), before) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{interruptWatch{e}, e.out}, prompt)
	if width, height, err := term.GetSize(int(e.in.Fd())); err == nil && width > 0 {
		_ = t.SetSize(width, height)
	}
	t.History = newHistory("")
	if e.history != nil {
		t.History = e.history
	}
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) { return e.handleKey(t, line, pos, key) }
	e.interrupted, e.sought, e.found = false, "", ""
	e.editsLine(t)
	defer e.editsLine(nil)
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := t.ReadLine()
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		switch {
		case e.interrupted:
			_, _ = io.WriteString(e.out, "^C\r\n")
			return "", errInterrupted
		case r.err != nil:
			_, _ = io.WriteString(e.out, "\r\n")
			return "", errEnd
		}
		return r.line, nil
	case <-ctx.Done():
		_, _ = io.WriteString(e.out, "\r\n")
		return "", context.Cause(ctx)
	}
}

func (e *lineEditor) editsLine(t *term.Terminal) {
	e.mu.Lock()
	e.terminal = t
	e.mu.Unlock()
}

// printAbove prints a line above the edited one.
func (e *lineEditor) printAbove(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.terminal != nil {
		_, _ = io.WriteString(e.terminal, line+"\n")
		return
	}
	_, _ = io.WriteString(e.out, line+"\n")
}

// interruptWatch records Ctrl-C, which a Terminal reports like the end. It gives a Terminal one line: later input is for the
// next one.
type interruptWatch struct{ e *lineEditor }

func (w interruptWatch) Read(p []byte) (n int, err error) {
	if len(w.e.ahead) > 0 {
		n, w.e.ahead = copy(p, w.e.ahead), nil
	} else {
		n, err = w.e.in.Read(p)
	}
	for i, b := range p[:n] {
		if b == ctrlC || b == '\r' {
			w.e.interrupted = b == ctrlC
			w.e.ahead = bytes.Clone(p[i+1 : n])
			return i + 1, err
		}
	}
	return n, err
}

const (
	ctrlC    = 3
	keyCtrlR = 18
)

// handleKey handles the keys that a Terminal does not.
func (e *lineEditor) handleKey(t *term.Terminal, line string, pos int, key rune) (string, int, bool) {
	switch {
	case key == '\t' && e.complete != nil:
		to, show := e.complete(line[:pos])
		if show != "" {
			_, _ = io.WriteString(t, show)
		}
		return to + line[pos:], len(to), true
	case key == keyCtrlR && e.history != nil:
		if line != e.found || line == "" {
			e.sought, e.back = line, -1
		}
		older, back, ok := e.history.olderLine(e.sought, e.back)
		if !ok {
			return "", 0, false
		}
		e.found, e.back = older, back
		return older, len(older), true
	}
	return "", 0, false
}
