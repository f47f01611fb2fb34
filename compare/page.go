package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-curator/curator/compare/internal/page"
)

// write puts the results into the documents.
func write(args []string) error {
	flags := flag.NewFlagSet("page", flag.ExitOnError)
	results := flags.String("results", "results", "directory with the results")
	docs := flags.String("docs", "../docs", "where choosing-a-lock.md is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := page.Load(*results)
	if err != nil {
		return err
	}
	if len(r.Plays) == 0 {
		return fmt.Errorf("there are no results in %s: compare run makes them", *results)
	}
	for name, blocks := range map[string]map[string]string{
		"choosing-a-lock.md": r.Blocks(), "../compare/counted.md": r.Counted(),
	} {
		file := filepath.Join(*docs, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		made, err := page.Put(string(text), blocks)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			return err
		}
	}
	for name, text := range r.Plots() {
		if err := os.WriteFile(filepath.Join(*docs, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
