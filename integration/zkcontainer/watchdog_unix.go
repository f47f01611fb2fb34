//go:build unix

package zkcontainer

import (
	"os/exec"
	"syscall"
)

// ownSession keeps the signals of the terminal away: the watchdog must survive an interrupted test.
func ownSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
