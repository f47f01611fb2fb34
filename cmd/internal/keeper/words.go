package keeper

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Word is the first argument of a process that is a keeper.
const Word = "__keep"

// The descriptors of a keeper besides the standard ones.
const (
	wordsFD   = 3 // from the parent; its end is the parent's
	reportsFD = 4 // to the parent
)

// Until is a word to the keeper: the hold is certain until then. It replaces what was said before.
func Until(at time.Duration) string { return fmt.Sprintf("until %d\n", max(at, 0)) }

// Pass is a word to the keeper: this signal is for the command.
func Pass(s syscall.Signal) string { return fmt.Sprintf("signal %d\n", s) }

// word is what [Until] or [Pass] wrote.
type word struct {
	until  time.Duration
	signal syscall.Signal // 0 if it is an until
}

func parseWord(line string) (word, error) {
	kind, value, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || n < 0:
	case kind == "until":
		return word{until: time.Duration(n)}, nil
	case kind == "signal" && n > 0 && n < 128:
		return word{signal: syscall.Signal(n)}, nil
	}
	return word{}, fmt.Errorf("unknown word %q", line)
}

// Report is a line from the keeper to its parent.
type Report struct {
	Started int    // the command runs, and this is its process, and the number of its group
	Failed  string // it could not be started, for this reason
	Ended   bool   // nothing of it is left
	Status  int    // its exit status, 128 and the signal's number if a signal has ended it
	Told    bool   // the keeper has told it to end
}

func (r Report) String() string {
	switch {
	case r.Started > 0:
		return fmt.Sprintf("started %d\n", r.Started)
	case r.Failed != "":
		return fmt.Sprintf("failed %q\n", r.Failed)
	}
	return fmt.Sprintf("ended %d %t\n", r.Status, r.Told)
}

// ParseReport reads what String wrote.
func ParseReport(line string) (r Report, err error) {
	kind, _, _ := strings.Cut(line, " ")
	switch kind {
	case "started":
		_, err = fmt.Sscanf(line, "started %d", &r.Started)
	case "failed":
		_, err = fmt.Sscanf(line, "failed %q", &r.Failed)
	case "ended":
		r.Ended = true
		_, err = fmt.Sscanf(line, "ended %d %t", &r.Status, &r.Told)
	default:
		err = fmt.Errorf("unknown report %q", line)
	}
	return r, err
}

// Arguments are those of a keeper for a command, which is found at path: until when the hold is certain at
// first, and its grace.
func Arguments(until time.Duration, g Grace, path string, command []string) []string {
	number := func(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }
	return append([]string{Word, number(until), number(g.Term), number(g.Kill), path}, command...)
}

func parseArguments(args []string) (until time.Duration, g Grace, path string, command []string, err error) {
	if len(args) < 6 || args[0] != Word {
		return 0, g, "", nil, fmt.Errorf("%s is for the program itself", Word)
	}
	for i, to := range []*time.Duration{&until, &g.Term, &g.Kill} {
		n, err := strconv.ParseInt(args[i+1], 10, 64)
		if err != nil || n < 0 {
			return 0, g, "", nil, fmt.Errorf("%s is for the program itself: %q is not a time", Word, args[i+1])
		}
		*to = time.Duration(n)
	}
	return until, g, args[4], args[5:], nil
}
