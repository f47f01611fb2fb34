package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-curator/curator/compare/internal/page"
	"github.com/go-curator/curator/compare/internal/speed"
	"github.com/go-curator/curator/compare/internal/ways"
	"github.com/go-curator/curator/compare/servers"
)

// measure measures one way after the other, each in a separate process.
func measure(args []string) error {
	flags := flag.NewFlagSet("speed", flag.ExitOnError)
	which := flags.String("ways", "", "only these")
	long := flags.Duration("long", time.Second, "how long each of the three measurements of a way takes")
	rounds := flags.Int("rounds", 3, "how often each way is measured, one after the other")
	results := flags.String("results", "results", "directory for the results; what is there is not measured again")
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
	for i := range *rounds * len(ways.All) {
		round, kind := i/len(ways.All)+1, ways.All[i%len(ways.All)]
		file := filepath.Join(*results, fmt.Sprintf("speed--%s--%d.json", kind.ID, round))
		_, missing := os.Stat(file)
		if missing == nil || *which != "" && !strings.Contains(","+*which+",", ","+kind.ID+",") {
			continue
		}
		text, err := measured(program, kind, *long)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.ID, err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
		fmt.Printf("round %d, %-20s %s", round, kind.ID, text)
	}
	return nil
}

func measured(program string, kind ways.Kind, long time.Duration) (text []byte, err error) {
	work, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return nil, err
	}
	server, err := servers.Start(kind.Server, work, servers.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	store := ""
	if kind.Store != "" {
		written, err := servers.Start(kind.Store, filepath.Join(work, "store"), servers.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, written.Close()) }()
		store = written.Addrs()[0]
	}
	cmd := exec.Command(program, "many", "-way", kind.ID, "-servers", strings.Join(server.Addrs(), ","), "-dir", work,
		"-long", long.String(), "-store", store)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// many is the entry point of the measuring processes.
func many(args []string) error {
	flags := flag.NewFlagSet("many", flag.ExitOnError)
	way := flags.String("way", "", "")
	addrs := flags.String("servers", "", "")
	dir := flags.String("dir", "", "")
	store := flags.String("store", "", "")
	long := flags.Duration("long", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	kind, err := ways.Find(*way)
	if err != nil {
		return err
	}
	c := ways.Config{Servers: strings.Split(*addrs, ","), Lease: 10 * time.Second, ID: "p", Dir: *dir, Store: *store}
	m := page.Measured{Way: kind.ID}
	if m.Can, err = speed.Probe(kind, c); err != nil {
		return err
	}
	// A Java process a contender is nothing to compare: make bench-peers measures Curator in one process.
	for _, n := range []int{1, 8, 32} {
		if kind.ID == "java-curator" {
			break
		}
		f, err := speed.Run(kind, c, n, *long)
		if err != nil {
			return err
		}
		m.Figures = append(m.Figures, f)
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}
