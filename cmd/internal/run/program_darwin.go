package run

import "os"

// program is this program.
func program() (string, error) { return os.Executable() }
