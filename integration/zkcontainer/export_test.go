package zkcontainer

// Self names this process on what it makes.
func Self() string { return self().String() }

// Watchdog is the id of the process that waits for our end; 0 if there is none.
func Watchdog() int {
	if watchdog == nil {
		return 0
	}
	return watchdog.Process.Pid
}
