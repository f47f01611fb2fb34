// Command curator runs commands under locks, leadership and permits of a ZooKeeper ensemble: see
// docs/cli.md, or
//
//	curator --help
package main

import (
	"os"

	"github.com/go-curator/curator/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
