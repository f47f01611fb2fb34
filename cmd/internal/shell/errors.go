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

// named is an error that matches a name, which its text does not contain.
type named struct{ name, err error }

func (e named) Error() string   { return e.err.Error() }
func (e named) Unwrap() []error { return []error{e.name, e.err} }

func usage(format string, args ...any) error { return named{ErrUsage, fmt.Errorf(format, args...)} }
func no(format string, args ...any) error    { return named{ErrNo, fmt.Errorf(format, args...)} }

// FlagError returns the usage error for flags that cannot be parsed because of err. help names the command that lists
// the flags. An unknown flag may be data that begin with "-", such as -9, so the error mentions "--".
func FlagError(err error, help string) error {
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		return usage(`%w: see %s; write -- before an argument that begins with "-"`, err, help)
	}
	return usage("%w: see %s", err, help)
}

// form returns a command's usage, without its name.
func form(cmd *cobra.Command) string {
	_, form, _ := strings.Cut(cmd.Use, " ")
	return form
}

// hint is advice about an error.
type hint struct {
	about error
	do    string
}

// general are the hints that hold for every command.
var general = []hint{
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

// advised adds to err what to do about it, by the first hint that fits.
func advised(err error, hints ...hint) error {
	for _, h := range hints {
		if err != nil && errors.Is(err, h.about) {
			return advice{err, h.do}
		}
	}
	return err
}

type advice struct {
	err error
	do  string
}

func (a advice) Error() string { return a.err.Error() + "; " + a.do }
func (a advice) Unwrap() error { return a.err }

// told returns the error for the user: with advice, and as an answer if it is one.
func told(err error) error {
	var already advice
	if err != nil && !errors.As(err, &already) {
		err = advised(err, general...)
	}
	for _, answer := range answers {
		if errors.Is(err, answer) && !errors.Is(err, framework.ErrOutcomeUnknown) {
			return named{ErrNo, err}
		}
	}
	return err
}
