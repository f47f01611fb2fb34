//go:build !race

package mutex_test

// slack is by how much more a program may need in which nothing is checked.
const slack = 1.0
