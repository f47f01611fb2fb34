package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two calls compete for the first item, which may still be there after the first call. By the time the second call removes the
// name, the list is a new one: no other name is removed.
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
