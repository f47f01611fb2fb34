package stories

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The register finds the violations that it looks for.
func TestRegister(t *testing.T) {
	t.Parallel()
	yes := func() bool { return true }
	over := false
	enter := func(r *register, h *hold) error {
		valid, err := r.enter(h)
		assert.True(t, valid)
		return err
	}
	lock := &register{capacity: 1}
	first := &hold{who: 1, token: 7, weight: 1, valid: yes}
	assert.NoError(t, enter(lock, first))
	assert.ErrorContains(t, enter(lock, &hold{who: 2, token: 8, weight: 1, valid: func() bool { return !over }}),
		"at the same instant")
	lock.leave(first)
	over = true
	assert.ErrorContains(t, enter(lock, &hold{who: 1, token: 7, weight: 1, valid: yes}), "after 2 had 0x8")
	valid, err := lock.enter(&hold{who: 3, token: 9, weight: 1, valid: func() bool { return false }})
	assert.NoError(t, err)
	assert.False(t, valid)

	both := &register{capacity: 1}
	assert.NoError(t, enter(both, &hold{who: 1, token: 5, shared: true, weight: 1, valid: yes}))
	assert.NoError(t, enter(both, &hold{who: 2, token: 4, shared: true, weight: 1, valid: yes}),
		"readers hold together, in any order")
	assert.ErrorContains(t, enter(both, &hold{who: 3, token: 6, weight: 1, valid: yes}), "at the same instant")

	leases := &register{capacity: 2}
	assert.NoError(t, enter(leases, &hold{who: 1, weight: 1, valid: yes}))
	assert.NoError(t, enter(leases, &hold{who: 2, weight: 1, valid: yes}))
	assert.ErrorContains(t, enter(leases, &hold{who: 3, weight: 1, valid: yes}),
		"at the same instant as 2 others")
}
