package shell

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// completePath completes paths in the prompt. Outside it nothing is completed, also no files: it would take a
// session for each Tab, and names of nodes do not belong into a shell's line, which would execute $(them).
func (h commandHost) completePath(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if h.prompt == nil || len(args) > 0 {
		return nil, directive
	}
	if begun == "" && h.prompt.at == "/" {
		return []string{"/"}, directive | cobra.ShellCompDirectiveNoSpace
	}
	i := strings.LastIndexByte(begun, '/') // -1: a child of the node that the prompt is at
	if !h.prompt.client.State().State.IsConnected() {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	dir := h.prompt.at
	if i >= 0 {
		dir = h.prompt.absolutePath(begun[:max(i, 1)])
	}
	names, err := h.prompt.client.GetChildren().ForPath(ctx, dir)
	if err != nil {
		return nil, directive
	}
	var found []string
	for _, n := range names {
		if strings.HasPrefix(n, begun[i+1:]) {
			found = append(found, begun[:i+1]+n)
		}
	}
	slices.Sort(found)
	return found, directive | cobra.ShellCompDirectiveNoSpace
}

// completeLine completes the line of the prompt up to the cursor, by the common prefix of all candidates. If that adds no
// text, show lists the candidates. It asks the commands themselves, as a shell does.
func (p *runningPrompt) completeLine(line string) (to, show string) {
	found, open, err := splitWords(line)
	if err != nil && len(found) == 0 {
		return line, ""
	}
	if !open {
		found = append(found, promptWord{"", len(line)})
	}
	last := found[len(found)-1]
	candidates, space := p.candidates(found)
	if len(candidates) == 0 {
		return line, ""
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		n := 0
		for n < min(len(common), len(c)) && common[n] == c[n] {
			n++
		}
		common = common[:n]
	}
	for !utf8.ValidString(common) && len(common) > len(last.value) {
		common = common[:len(common)-1]
	}
	switch {
	case len(candidates) == 1 && space:
		return line[:last.start] + quoteWord(common) + " ", ""
	case len(common) > len(last.value):
		return line[:last.start] + quoteUnclosed(common), ""
	case len(candidates) == 1:
		return line, ""
	}
	return line, listCandidates(candidates)
}

// candidates returns the possible values of the last word, and whether a blank follows it.
func (p *runningPrompt) candidates(found []promptWord) (candidates []string, space bool) {
	args := []string{cobra.ShellCompNoDescRequestCmd}
	for _, w := range found {
		args = append(args, w.value)
	}
	var out bytes.Buffer
	root := p.promptCommands(&out, io.Discard)
	root.SetArgs(args)
	if err := root.ExecuteContext(p.ctx); err != nil {
		return nil, false
	}
	// One candidate in a line, and a last line with the directive, ":4". A name cannot contain a line break.
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	directive, _ := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	for _, l := range lines[:len(lines)-1] {
		if strings.HasPrefix(l, found[len(found)-1].value) && !strings.HasPrefix(l, "_activeHelp_") {
			candidates = append(candidates, l)
		}
	}
	return candidates, cobra.ShellCompDirective(directive)&cobra.ShellCompDirectiveNoSpace == 0
}

// quoteUnclosed is quoted without the closing quotation mark, since the word continues.
func quoteUnclosed(s string) string {
	if q := quoteWord(s); q != s {
		return q[:len(q)-1]
	}
	return s
}

// most candidates are listed.
const listedMost = 100

// listCandidates lists candidates, of paths only the last names.
func listCandidates(candidates []string) string {
	var b strings.Builder
	for i, c := range candidates {
		if i == listedMost {
			fmt.Fprintf(&b, "… and %d more", len(candidates)-i)
			break
		}
		if n := baseName(c); n != "" {
			c = n
		}
		fmt.Fprintf(&b, "%s  ", firstPart(c, shown))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
