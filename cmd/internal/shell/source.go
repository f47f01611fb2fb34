package shell

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// most bounds the bytes that are read for a node. No server takes so many by default; the client refuses a request
// that is too large before it is sent.
const most = 64 << 20

// dataSource is the origin of a node's data: an argument, a file or standard input.
type dataSource struct{ file string }

func (s *dataSource) dataFlag(f *pflag.FlagSet) {
	f.StringVarP(&s.file, "file", "f", "", "take the data from this `file`; - is standard input")
}

// readData returns the data: arg if there is one; never nil, which would mean the client's default data.
func (s *dataSource) readData(ctx context.Context, h commandHost, cmd *cobra.Command, arg []string) ([]byte, error) {
	switch {
	case s.file == "" && len(arg) == 0:
		return []byte{}, nil
	case s.file == "":
		return []byte(arg[0]), nil
	case len(arg) > 0:
		return nil, usageError("the data are given twice: as an argument, and by --file %s", s.file)
	}
	in, err := openSource(ctx, h, cmd, s.file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, usageError("--file %s: %w", s.file, err)
	case len(data) > most:
		return nil, usageError("--file %s has more than %d bytes, which no node can have", s.file, most)
	}
	return data, nil
}

// openSource is a file that is read; - is standard input, whose reads end with ctx.
func openSource(ctx context.Context, h commandHost, cmd *cobra.Command, file string) (io.ReadCloser, error) {
	if file == "-" {
		if h.prompt != nil {
			return nil, usageError("in the prompt standard input is the prompt's: name a file")
		}
		read, write := io.Pipe()
		context.AfterFunc(ctx, func() { _ = read.CloseWithError(ctx.Err()) })
		go func() { // ends with the input, or after Close when more of it comes; at the latest with the program
			_, err := io.Copy(write, cmd.InOrStdin())
			_ = write.CloseWithError(err)
		}()
		return read, nil
	}
	f, err := os.Open(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, usageError("%s: %w", file, err)
	}
	return f, nil
}
