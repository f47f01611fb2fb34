package keeper

import "syscall"

// attributes: a separate process group. macOS cannot end a process with its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Adopt does nothing: here who loses its parent goes to launchd.
func Adopt() {}

func findStrays(int) []int { return nil }
