package zkserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// allThreadsStopped reports whether SIGSTOP has reached every thread.
func allThreadsStopped(pid int) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		return false
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		// The state follows the name in brackets, which may contain anything.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}
