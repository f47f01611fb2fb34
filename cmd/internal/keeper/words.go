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

// Pipes are the descriptors of a keeper's ends of the pipes to its parent. They are not 3 and 4, which are the
// command's if the program was started with any (make's jobserver does that).
type Pipes struct {
	Words   uintptr // from the parent; its end is the parent's
	Reports uintptr // to the parent
}

// Until is a word to the keeper: the hold is certain until then. It replaces earlier ones.
func Until(at time.Duration) string { return fmt.Sprintf("until %d\n", max(at, 0)) }

// Pass is a word to the keeper: this signal is for the command.
func Pass(s syscall.Signal) string { return fmt.Sprintf("signal %d\n", s) }

// parentMessage is a parsed [Until] or [Pass].
type parentMessage struct {
	until  time.Duration
	signal syscall.Signal // 0 if it is an until
}

func parseMessage(line string) (parentMessage, error) {
	kind, value, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || n < 0:
	case kind == "until":
		return parentMessage{until: time.Duration(n)}, nil
	case kind == "signal" && n > 0 && n < 128:
		return parentMessage{signal: syscall.Signal(n)}, nil
	}
	return parentMessage{}, fmt.Errorf("unknown word %q", line)
}

// Report is a line from the keeper to its parent.
type Report struct {
	Started int    // the command runs, and this is its process, and the number of its group
	Failed  string // it could not be started, for this reason
	Ended   bool   // all its processes have ended
	Status  int    // its exit status, 128 and the signal's number if a signal has ended it
	Told    bool   // the keeper has sent it TERM or KILL, or has not started it for lack of time
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

// Job has the parameters of a keeper.
type Job struct {
	Pipes
	Until   time.Duration // the hold is certain until then at first
	Grace   Grace
	Path    string   // where the command's program is
	Command []string // its name and arguments
}

// Arguments returns the arguments of the keeper's process.
func (j Job) Arguments() []string {
	args := []string{Word}
	for _, n := range []int64{
		int64(j.Words), int64(j.Reports), int64(j.Until), int64(j.Grace.Term), int64(j.Grace.Kill),
	} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	return append(append(args, j.Path), j.Command...)
}

func parseArguments(args []string) (j Job, err error) {
	var numbers [5]int64
	if len(args) < len(numbers)+3 || args[0] != Word {
		return Job{}, fmt.Errorf("%s is for the program itself", Word)
	}
	for i := range numbers {
		numbers[i], err = strconv.ParseInt(args[i+1], 10, 64)
		if err != nil || numbers[i] < 0 {
			return Job{}, fmt.Errorf("%s is for the program itself: %q is no number", Word, args[i+1])
		}
	}
	args = args[len(numbers)+1:]
	return Job{
		Pipes: Pipes{Words: uintptr(numbers[0]), Reports: uintptr(numbers[1])}, Until: time.Duration(numbers[2]),
		Grace: Grace{Term: time.Duration(numbers[3]), Kill: time.Duration(numbers[4])}, Path: args[0], Command: args[1:],
	}, nil
}
