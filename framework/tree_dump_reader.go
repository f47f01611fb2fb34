package framework

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// dumpReader reads a dump line by line.
type dumpReader struct {
	lines   *bufio.Scanner
	n       int
	acl     bool
	nodes   int64
	skipped int64
}

// newDumpReader returns a reader of lines with nodes that fit into a frame.
func newDumpReader(r io.Reader, maxFrame int) *dumpReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 2*maxFrame+1<<20)
	return &dumpReader{lines: s}
}

func (d *dumpReader) invalid(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrInvalidDump, d.n, fmt.Sprintf(format, args...))
}

func (d *dumpReader) line() (line dumpLine, err error) {
	d.n++
	if !d.lines.Scan() {
		switch err := d.lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return line, d.invalid("longer than any node can be")
		case err != nil:
			return line, err
		}
		return line, d.invalid("the stream ends before the dump does")
	}
	if err := json.Unmarshal(d.lines.Bytes(), &line); err != nil {
		return line, d.invalid("%v", err)
	}
	if n := line.kinds(); n > 1 {
		return line, d.invalid("%d things in one line", n)
	}
	return line, nil
}

func (d *dumpReader) header() error {
	line, err := d.line()
	switch {
	case err != nil:
		return err
	case line.Header == nil:
		return d.invalid("no header")
	case line.Header.Version != dumpVersion:
		return d.invalid("a dump of version %d, this program reads version %d", line.Header.Version, dumpVersion)
	}
	d.acl = line.Header.ACL
	return nil
}

// next returns the next node, nil at the end.
func (d *dumpReader) next() (*dumpNode, error) {
	for {
		line, err := d.line()
		switch {
		case err != nil:
			return nil, err
		case line.Skipped != nil:
			d.skipped++
		case line.Node != nil:
			d.nodes++
			if err := zkpath.Validate(line.Node.Path, false); err != nil {
				return nil, d.invalid("%v", err)
			}
			if d.nodes == 1 && line.Node.Path != "/" {
				return nil, d.invalid("the first node is %s, not the root", plain.Text(line.Node.Path))
			}
			return line.Node, nil
		case line.End != nil:
			if line.End.Nodes != d.nodes || line.End.Skipped != d.skipped {
				return nil, d.invalid("%d nodes and %d skipped, but the end says %d and %d", d.nodes, d.skipped,
					line.End.Nodes, line.End.Skipped)
			}
			return nil, nil
		default:
			return nil, d.invalid("neither a node nor the end")
		}
	}
}
