//go:build race

package mutex_test

// slack is for the race detector: it makes pools forget at random.
const slack = 2.0
