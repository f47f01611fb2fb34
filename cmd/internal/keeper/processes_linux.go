package keeper

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes: a separate process group, and death with the keeper.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Adopt makes this process the parent of all its descendants whose own parent ends, so that it can wait for
// them.
func Adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// findStrays returns the descendants of this process that are not in the group. Without /proc it finds none.
func findStrays(group int) []int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	type process struct{ parent, group int }
	all := map[int]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name.Name() + "/stat")
		if err != nil {
			continue // gone
		}
		// pid (name) state parent group …: the name may contain anything
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 {
			continue
		}
		var p process
		p.parent, _ = strconv.Atoi(string(fields[1]))
		p.group, _ = strconv.Atoi(string(fields[2]))
		all[pid] = p
	}
	self := os.Getpid()
	var found []int
	for pid, p := range all {
		if p.group == group || pid == self {
			continue
		}
		for above, steps := p.parent, 0; above > 0 && steps <= len(all); above, steps = all[above].parent, steps+1 {
			if above == self {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}
