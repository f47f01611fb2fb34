package shell

import (
	"os"
	"path/filepath"
	"strings"
)

// lineHistory has the entered lines, oldest first. It is kept in a file, unless there is none. A line that begins with a
// blank is not kept: that is for secrets.
type lineHistory struct {
	file  string
	lines []string
}

const historyLength = 1000

// historyFile returns CURATOR_HISTORY if that is set, else a file in the user's state directory; "" means no file.
func historyFile() string {
	if file, set := os.LookupEnv("CURATOR_HISTORY"); set {
		return file
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "curator", "history")
}

// newHistory reads the file. Errors of reading or writing it are ignored: the prompt works without a history.
func newHistory(file string) *lineHistory {
	h := &lineHistory{file: file}
	if file == "" {
		return h
	}
	content, err := os.ReadFile(file)
	if err != nil {
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
		return h
	}
	for l := range strings.Lines(string(content)) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && printableName(l) == l { // only text that is safe to print
			h.lines = append(h.lines, l)
		}
	}
	if n := len(h.lines); n > historyLength {
		h.lines = h.lines[n-historyLength:]
		_ = os.WriteFile(file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h
}

// Add, Len and At make it a term.History.
func (h *lineHistory) Add(line string) {
	if line == "" || line[0] == ' ' || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.file == "" {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}

func (h *lineHistory) Len() int { return len(h.lines) }

// At returns the line that is n lines back.
func (h *lineHistory) At(n int) string { return h.lines[len(h.lines)-1-n] }

// olderLine finds what in the lines more than n back: the nearest such line, and how far back it is.
func (h *lineHistory) olderLine(what string, n int) (line string, back int, ok bool) {
	for n++; n < h.Len(); n++ {
		if strings.Contains(h.At(n), what) {
			return h.At(n), n, true
		}
	}
	return "", 0, false
}
