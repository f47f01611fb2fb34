//go:build !race

package mutex_test

// slack is the factor by which the limits grow: without the race detector they do not.
const slack = 1.0
