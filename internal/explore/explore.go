// Package explore visits every state that a model can reach. It reports the shortest run to a wrong state: a state
// that must not be reached, a state with unfinished work and no further steps, or a state whose runs never reach the
// end.
//
// A model calls the library's own decision functions, and plays the server, the network and the other clients around
// them. Its result holds for every order of events within its bounds (so many clients, so many faults).
//
// For tests only.
package explore

import "fmt"

// Model is a transition system. S is a state as a value, without pointers: two states are the same if they are equal.
// To have fewer states, drop facts from S that no longer make a difference, and make times relative to now.
type Model[S comparable] struct {
	// Start are the states where a run may begin.
	Start []S
	// Next calls step for each event that may come next in s, with the state after it. The order of the calls must be
	// the same each time.
	Next func(s S, step func(what string, next S))
	// Wrong returns why s must not be reached, and "" if it may be.
	Wrong func(s S) string
	// Final, if set, reports whether a run may end in s. Then from every state a run must lead to such a state:
	// otherwise a run could get stuck, or repeat itself for ever.
	Final func(s S) bool
	// Most limits the number of states, as a protection against a model without bounds. Default 20 million.
	Most int
}

// Result is the result of an exploration.
type Result struct {
	States, Steps int
	// Wrong is the reason why the last state of Story is wrong; "" if no state is.
	Wrong string
	// Story has the steps and states of a shortest run to that state.
	Story []string
}

// Explore visits the states breadth first. It ends at the first wrong state.
func (m Model[S]) Explore() (r Result) { return m.visitStates(0) }

// visitStates is Explore, but ends after limit states if limit is not 0.
func (m Model[S]) visitStates(limit int) (r Result) {
	most := m.Most
	if most == 0 {
		most = 20_000_000
	}
	var (
		states  []S
		parents []int32         // the state from which the state with the same index was reached; -1 for one of Start
		index   = map[S]int32{} // of a state in states
		edges   [][2]int32      // the steps, from one state to another, if Final is set
	)
	add := func(s S, parent int32) int32 {
		i, known := index[s]
		if !known {
			i = int32(len(states))
			index[s] = i
			states, parents = append(states, s), append(parents, parent)
		}
		return i
	}
	for _, s := range m.Start {
		add(s, -1)
	}
	for i := 0; i < len(states); i++ {
		r.States = len(states)
		if m.Wrong != nil {
			if r.Wrong = m.Wrong(states[i]); r.Wrong != "" {
				r.Story = m.storyOf(states, parents, int32(i))
				return r
			}
		}
		if len(states) > most {
			r.Wrong = fmt.Sprintf("the model has no bounds: more than %d states", most)
			r.Story = m.storyOf(states, parents, int32(i))
			return r
		}
		if limit > 0 && len(states) >= limit {
			return r
		}
		m.Next(states[i], func(_ string, next S) {
			r.Steps++
			j := add(next, int32(i))
			if m.Final != nil && int(j) != i {
				edges = append(edges, [2]int32{int32(i), j})
			}
		})
	}
	r.States = len(states)
	if m.Final != nil {
		if i := m.firstStuck(states, edges); i >= 0 {
			r.Wrong, r.Story = "no end can be reached from here", m.storyOf(states, parents, i)
			m.Next(states[i], func(string, S) { r.Wrong = "no end can be reached from here, whatever happens next" })
		}
	}
	return r
}

// firstStuck returns the first state whose runs never reach a final state, and -1 if there is none. It marks the final
// states, and then backwards every state from which a marked one can be reached.
func (m Model[S]) firstStuck(states []S, edges [][2]int32) int32 {
	// from has the predecessors of all states, sorted by state: from[begin[i]:begin[i+1]] are those of state i.
	begin := make([]int32, len(states)+1)
	for _, e := range edges {
		begin[e[1]+1]++
	}
	for i := range states {
		begin[i+1] += begin[i]
	}
	from, at := make([]int32, len(edges)), append([]int32{}, begin...)
	for _, e := range edges {
		from[at[e[1]]] = e[0]
		at[e[1]]++
	}
	ends := make([]bool, len(states))
	var todo []int32
	for i, s := range states {
		if m.Final(s) {
			ends[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range from[begin[i]:begin[i+1]] {
			if !ends[j] {
				ends[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i, ok := range ends {
		if !ok {
			return int32(i)
		}
	}
	return -1
}

// storyOf returns the steps and states that lead to state i. It finds each step with Next of the preceding state.
func (m Model[S]) storyOf(states []S, parents []int32, i int32) (story []string) {
	var way []int32
	for j := i; j >= 0; j = parents[j] {
		way = append(way, j)
	}
	story = append(story, fmt.Sprintf("    %+v", states[way[len(way)-1]]))
	for k := len(way) - 2; k >= 0; k-- {
		to, found := states[way[k]], false
		m.Next(states[way[k+1]], func(what string, next S) {
			if !found && next == to {
				found = true
				story = append(story, what, fmt.Sprintf("    %+v", to))
			}
		})
	}
	return story
}
