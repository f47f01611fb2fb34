//go:build linux || darwin

package cli_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// screen is the display of a terminal.
type screen struct {
	keys *os.File
	done chan struct{}

	mu       sync.Mutex
	rows     [][]rune // guarded by mu, as all below
	row, col int
	odd      []string // sequences that screen does not support
}

// onScreen starts the program on a terminal of its own, with the given size.
func (b *bed) onScreen(width, height uint16, args ...string) (*screen, *proc) {
	b.Helper()
	user, terminal, err := pty.Open()
	require.NoError(b, err)
	require.NoError(b, pty.Setsize(terminal, &pty.Winsize{Rows: height, Cols: width}))
	b.onto, b.whole = terminal, true
	b.env = append(b.env, "TERM=xterm", "NO_COLOR=")
	p := b.start(args...)
	b.onto, b.whole = nil, false
	terminal.Close()
	s := &screen{keys: user, done: make(chan struct{})}
	go func() { // until the last process with the terminal has ended
		defer close(s.done)
		buf := make([]byte, 4096)
		rest := ""
		for {
			n, err := user.Read(buf)
			rest = s.take(rest + string(buf[:n]))
			if err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { user.Close() })
	return s, p
}

// take displays the text, and returns the beginning of an incomplete sequence.
func (s *screen) take(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text != "" {
		if text[0] == 0x1b {
			end := strings.IndexFunc(text, func(r rune) bool { return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' })
			if end < 0 {
				return text
			}
			s.control(text[1 : end+1])
			text = text[end+1:]
			continue
		}
		if !utf8.FullRuneInString(text) {
			return text
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch r {
		case '\r':
			s.col = 0
		case '\n':
			s.row++
		default:
			s.put(r)
		}
	}
	return ""
}

func (s *screen) put(r rune) {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
	for len(s.rows[s.row]) <= s.col {
		s.rows[s.row] = append(s.rows[s.row], ' ')
	}
	s.rows[s.row][s.col] = r
	s.col++
}

func (s *screen) control(sequence string) {
	switch {
	case sequence == "[H":
		s.row, s.col = 0, 0
	case sequence == "[K":
		if s.row < len(s.rows) {
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
		}
	case sequence == "[J":
		if s.row < len(s.rows) {
			s.rows = s.rows[:s.row]
		}
	case strings.HasSuffix(sequence, "m"): // colours
	default:
		s.odd = append(s.odd, strconv.Quote(sequence))
	}
}

// text returns the visible text.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	for _, odd := range s.odd {
		b.WriteString("unknown sequence " + odd + "\n")
	}
	return strings.Trim(b.String(), "\n")
}

func (s *screen) presses(b *bed, keys string) {
	_, err := s.keys.WriteString(keys)
	require.NoError(b, err)
}

// shows waits until all of these texts are visible.
func (b *bed) shows(s *screen, all ...string) {
	b.Helper()
	defer func() {
		if b.Failed() {
			b.Logf("the screen:\n%s", s.text())
		}
	}()
	b.soon("the screen shows "+strings.Join(all, ", "), func() bool {
		text := s.text()
		for _, want := range all {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}
