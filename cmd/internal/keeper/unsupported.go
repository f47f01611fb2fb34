//go:build !linux && !darwin

package keeper

// Main returns immediately: commands are not supported here.
func Main([]string) int { return 2 }
