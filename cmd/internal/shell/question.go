package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// shownOn is out if it is a terminal, or else the terminal that is read.
func shownOn(out io.Writer, in *os.File) *os.File {
	if isTerminal(out) {
		return out.(*os.File)
	}
	return in
}

// askUser asks the user at the terminal that is the command's standard input. Everything but yes is no.
func askUser(ctx context.Context, cmd *cobra.Command, question string) error {
	in := cmd.InOrStdin().(*os.File)
	answer, err := newEditor(in, shownOn(cmd.ErrOrStderr(), in), nil, nil).readLine(ctx, question)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !errors.Is(err, errInterrupted) && !errors.Is(err, errEnd):
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return negativeError("nothing was deleted")
}
