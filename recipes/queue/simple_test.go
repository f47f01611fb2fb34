package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two calls compete for the first item, which may still be there after the first of them. It has listed again by the time the
// other one removes the name: that removes no other name.
func TestALateCallRemovesNoOtherName(t *testing.T) {
	s := &Simple{}
	first, _ := s.replaceNames([]string{"qn-0", "qn-1", "qn-2"})
	s.removeName(first, true)
	_, found := s.firstName()
	require.False(t, found, "the list is outdated")
	next, _ := s.replaceNames([]string{"qn-1", "qn-2"})
	s.removeName(first, false)
	name, _ := s.firstName()
	require.Equal(t, next, name)
}
