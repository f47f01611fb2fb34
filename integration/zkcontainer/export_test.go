package zkcontainer

// Self returns the name of this process on its containers and networks.
func Self() string { return self().String() }

// Watchdog returns the id of the process that waits for the end of this one; 0 if there is none.
func Watchdog() int {
	if watchdog == nil {
		return 0
	}
	return watchdog.Process.Pid
}
