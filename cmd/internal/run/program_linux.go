package run

// program is this program, also when its file was replaced or deleted meanwhile.
func program() (string, error) { return "/proc/self/exe", nil }
