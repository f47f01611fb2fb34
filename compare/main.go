// Command compare has processes take locks in every common way, including this library, makes the same faults for
// all, and counts the results (docs/choosing-a-lock.md).
//
//	compare run [-ways a,b] [-faults a,b] [-tries n] [-parallel n] [-results dir]
//	compare speed [-ways a,b] [-long 2s] [-results dir]
//	compare page [-results dir] [-docs dir]
//	compare ways | faults
//
// A run writes one file per way and fault, and plays only the missing ones: an interrupted run can be continued.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-curator/curator/compare/internal/contender"
	"github.com/go-curator/curator/compare/internal/play"
	"github.com/go-curator/curator/compare/internal/ways"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: run, speed, page, ways or faults")
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "speed":
		return measure(args[1:])
	case "many":
		return many(args[1:])
	case "page":
		return write(args[1:])
	case "contender":
		return contend(args[1:])
	case "ways":
		for _, k := range ways.All {
			fmt.Printf("%-20s %s\n", k.ID, k.Title)
		}
	case "faults":
		for _, f := range play.Faults {
			fmt.Printf("%-15s %s\n", f.ID, f.What)
		}
	default:
		return fmt.Errorf("there is no command %q: say run, speed, page, ways or faults", args[0])
	}
	return nil
}

// contend is the entry point of the contenders' processes.
func contend(args []string) error {
	flags := flag.NewFlagSet("contender", flag.ExitOnError)
	way := flags.String("way", "", "")
	servers := flags.String("servers", "", "")
	o := contender.Options{}
	flags.StringVar(&o.Config.ID, "id", "", "")
	flags.StringVar(&o.Config.Dir, "dir", "", "")
	flags.DurationVar(&o.Config.Lease, "lease", 4*time.Second, "")
	flags.StringVar(&o.Config.Store, "store", "", "")
	flags.StringVar(&o.Ledger, "ledger", "", "")
	flags.BoolVar(&o.Off, "off", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Config.Servers = strings.Split(*servers, ",")
	var err error
	if o.Kind, err = ways.Find(*way); err != nil {
		return err
	}
	return contender.Run(o, os.Stdin)
}
