package run

import "os"

// programPath is this program.
func programPath() (string, error) { return os.Executable() }
