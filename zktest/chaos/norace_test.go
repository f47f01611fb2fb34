//go:build !race

package chaos_test

const slow = false
