package shell

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

// ErrUsage is matched by the errors of a command that was written wrongly. Nothing was done.
var ErrUsage = errors.New("wrong usage")

// ErrNo is matched by the errors that mean that the servers, or the nodes, have answered no.
var ErrNo = errors.New("no")

// ErrLost is matched by the error of a command whose node was lost while it held it.
var ErrLost = errors.New("lost")

// ErrFound is the error of a command that has found problems, and has printed them: there is nothing to add.
var ErrFound = errors.New("problems found")

// namedError is an error that matches a name, which its text does not contain.
type namedError struct{ name, err error }

func (e namedError) Error() string   { return e.err.Error() }
func (e namedError) Unwrap() []error { return []error{e.name, e.err} }

func usageError(format string, args ...any) error {
	return namedError{ErrUsage, fmt.Errorf(format, args...)}
}
func negativeError(format string, args ...any) error {
	return namedError{ErrNo, fmt.Errorf(format, args...)}
}

// FlagError returns the usage error for flags that cannot be parsed because of err. help names the command that lists
// the flags. An unknown flag may be data that begin with "-", such as -9, so the error mentions "--".
func FlagError(err error, help string) error {
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		return usageError(`%w: see %s; write -- before an argument that begins with "-"`, err, help)
	}
	return usageError("%w: see %s", err, help)
}

// usageForm returns a command's usage, without its name.
func usageForm(cmd *cobra.Command) string {
	_, form, _ := strings.Cut(cmd.Use, " ")
	return form
}

// errorHint is advice about an error.
type errorHint struct {
	about error
	do    string
}

// general are the hints that hold for every command.
var general = []errorHint{
	{framework.ErrNoAuth, "give credentials with --digest-file or --sasl-file, or CURATOR_DIGEST or " +
		"CURATOR_SASL; \"acl get PATH\" shows the permissions"},
	{framework.ErrBadVersion, "\"stat PATH\" shows the version now"},
	{framework.ErrInvalidACL, "\"auth\" needs credentials: --digest-file or CURATOR_DIGEST; an id of the scheme " +
		"digest is user:hash"},
	{framework.ErrTooLarge, "the servers' jute.maxbuffer limits a node to 1 MiB unless configured"},
	{framework.ErrDecompress, "the data are not compressed with gzip: leave \"gunzip\" out"},
	{framework.ErrQuotaExceeded, "delete what is no longer needed, or raise the quota below /zookeeper/quota"},
	{framework.ErrOutcomeUnknown, "check whether it was executed before you repeat it"},
}

// answers are the errors that are replies to the user's request, rather than faults.
var answers = []error{
	framework.ErrNoNode, framework.ErrNodeExists, framework.ErrBadVersion, framework.ErrNotEmpty,
	framework.ErrNoAuth, framework.ErrInvalidACL, framework.ErrNoChildrenForEphemerals,
	framework.ErrQuotaExceeded, framework.ErrUnimplemented, framework.ErrReconfigDisabled,
	framework.ErrReconfigInProgress, framework.ErrNewConfigNoQuorum, framework.ErrDecompress,
	tree.ErrInvalidDump, tree.ErrSystemPath, framework.ErrTooLarge, framework.ErrReplyTooLarge,
}

// withAdvice adds to err what to do about it, by the first hint that fits.
func withAdvice(err error, hints ...errorHint) error {
	for _, h := range hints {
		if err != nil && errors.Is(err, h.about) {
			return errorAdvice{err, h.do}
		}
	}
	return err
}

type errorAdvice struct {
	err error
	do  string
}

func (a errorAdvice) Error() string { return a.err.Error() + "; " + a.do }
func (a errorAdvice) Unwrap() error { return a.err }

// userError returns the error for the user: with advice, and as an answer if it is one.
func userError(err error) error {
	var already errorAdvice
	if err != nil && !errors.As(err, &already) {
		err = withAdvice(err, general...)
	}
	for _, answer := range answers {
		if errors.Is(err, answer) && !errors.Is(err, framework.ErrOutcomeUnknown) {
			return namedError{ErrNo, err}
		}
	}
	return err
}
