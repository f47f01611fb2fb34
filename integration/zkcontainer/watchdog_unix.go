//go:build unix

package zkcontainer

import (
	"os/exec"
	"syscall"
)

// ownSession keeps the signals of the terminal away: an interrupted test is what the watchdog is for.
func ownSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
