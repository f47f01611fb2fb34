//go:build race

package mutex_test

// slack is the factor by which the limits grow under the race detector, which drops items of sync.Pool at random.
const slack = 2.0
