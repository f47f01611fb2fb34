package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/compare/internal/play"
	"github.com/go-curator/curator/compare/internal/ways"
)

// cell is a play to be made.
type cell struct {
	kind  ways.Kind
	fault play.Fault
	try   int
}

func (c cell) String() string { return fmt.Sprintf("%s %s %d", c.kind.ID, c.fault.ID, c.try) }

func (c cell) file(results string) string {
	return filepath.Join(results, fmt.Sprintf("%s--%s--%d.json", c.kind.ID, c.fault.ID, c.try))
}

func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	whichWays := flags.String("ways", "", "only these")
	whichFaults := flags.String("faults", "", "only these")
	tries := flags.Int("tries", 1, "how often each")
	ours := flags.Int("ours", 0, "how often each with this library; 0: as often as the others")
	parallel := flags.Int("parallel", 4, "how many plays at the same time")
	results := flags.String("results", "results", "directory for the results; what is there is not played again")
	lease := flags.Duration("lease", 4*time.Second, "of all ways; whole seconds, at least ZooKeeper's least session timeout")
	check := flags.Bool("check", false, "fail if a guarded or fenced hold of this library overlapped, or a play had no holds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*results, 0o755); err != nil {
		return err
	}
	// The servers run as the user nobody, and must get to their directories.
	work, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	cells, err := plan(*whichWays, *whichFaults, *tries, max(*ours, *tries))
	if err != nil {
		return err
	}
	todo := cells[:0:0]
	for _, c := range cells {
		if _, err := os.Stat(c.file(*results)); err != nil {
			todo = append(todo, c)
		}
	}
	fmt.Printf("%d plays, of which %d have been made before\n", len(cells), len(cells)-len(todo))
	var (
		next   = make(chan cell)
		active sync.WaitGroup
		mu     sync.Mutex
		done   int
		failed []error
	)
	began := time.Now()
	for range *parallel {
		active.Go(func() {
			for c := range next {
				dir := filepath.Join(work, filepath.Base(c.file("")))
				r, err := play.Run(program, dir, c.kind, c.fault, *lease)
				if err == nil {
					err = keep(c.file(*results), r)
				}
				if err == nil && *check {
					err = checked(r)
				}
				ledgerOf(c.file(*results), dir, len(r.Overlaps) > 0 || r.ForEver || err != nil)
				os.RemoveAll(dir)
				mu.Lock()
				done++
				said := describe(r)
				if err != nil {
					failed = append(failed, fmt.Errorf("%v: %w", c, err))
					said = "FAILED: " + err.Error()
				}
				fmt.Printf("[%d/%d %v] %v: %s\n", done, len(todo), time.Since(began).Round(time.Second), c, said)
				mu.Unlock()
			}
		})
	}
	for _, c := range todo {
		next <- c
	}
	close(next)
	active.Wait()
	if len(failed) > 0 {
		return fmt.Errorf("%d plays failed, the first is %w", len(failed), failed[0])
	}
	return nil
}

// plan is every way with every fault that it can have.
func plan(whichWays, whichFaults string, tries, ours int) (cells []cell, err error) {
	kinds, faults := ways.All, play.Faults
	if whichWays != "" {
		kinds = nil
		for id := range strings.SplitSeq(whichWays, ",") {
			k, err := ways.Find(id)
			if err != nil {
				return nil, err
			}
			kinds = append(kinds, k)
		}
	}
	if whichFaults != "" {
		faults = nil
		for id := range strings.SplitSeq(whichFaults, ",") {
			f, err := play.FindFault(id)
			if err != nil {
				return nil, err
			}
			faults = append(faults, f)
		}
	}
	for try := range ours {
		for _, f := range faults {
			for _, k := range kinds {
				if f.On(k) && (try < tries || strings.HasPrefix(k.ID, "curator")) {
					cells = append(cells, cell{k, f, try + 1})
				}
			}
		}
	}
	return cells, nil
}

func keep(file string, r play.Result) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// ledgerOf keeps the ledger of a play that showed something, next to its result.
func ledgerOf(file, dir string, wanted bool) {
	text, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if wanted && err == nil {
		_ = os.WriteFile(strings.TrimSuffix(file, ".json")+".ledger", text, 0o644)
	}
}

// checked returns an error if the result is wrong on any machine, however busy.
func checked(r play.Result) error {
	if r.Holds == 0 {
		return errors.New("nobody had the lock")
	}
	if (r.Way == "curator-guard" || r.Way == "curator-fenced") && len(r.Overlaps) > 0 {
		return fmt.Errorf("two holders, guarded or fenced: %v", r.Overlaps[0])
	}
	return nil
}

func describe(r play.Result) string {
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	said := fmt.Sprintf("%d holds", r.Holds)
	if n := len(r.Overlaps); n > 0 {
		said += fmt.Sprintf(", TWO HOLDERS %d× (%s), %d acts too late", n, ms(r.Longest()), r.ActsAfterLoss)
	}
	said += fmt.Sprintf(", told %d in time, %d late, %d never", r.InTime, r.Late, r.Never)
	if r.Fault == "killed-asking" {
		said += fmt.Sprintf(", locked %v", r.Locked)
	} else {
		said += fmt.Sprintf(", next after %s, gap %s", ms(r.Next), ms(r.Gap))
	}
	if r.ForEver {
		said += ", LOST FOR EVER"
	}
	return said
}
