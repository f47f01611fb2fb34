package framework

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func announced(todo []machineEffect) (out []StateChange) {
	for _, e := range todo {
		if e.kind == doAnnounce {
			out = append(out, e.change)
		}
	}
	return out
}

func TestMachineStories(t *testing.T) {
	const (
		up   = inConnected
		ro   = inReadOnly
		down = inDisconnected
		lost = inLost
		end  = inClose
	)
	type step struct {
		kind  inputKind
		epoch int64
	}
	type changes = []StateChange
	for _, tt := range []struct {
		name  string
		steps []step
		want  changes
	}{
		{"first connection", []step{{up, 1}}, changes{{Connected, 1}}},
		{"never connected: nothing is lost", []step{{down, 1}, {down, 1}, {lost, 1}, {down, 2}}, nil},
		{"never connected, then connected in the next epoch", []step{{lost, 1}, {up, 2}}, changes{{Connected, 2}}},
		{
			"cut and back", []step{{up, 1}, {down, 1}, {up, 1}},
			changes{{Connected, 1}, {Suspended, 1}, {Reconnected, 1}},
		},
		{"repeated events", []step{{up, 1}, {up, 1}, {down, 1}, {down, 1}, {up, 1}, {up, 1}},
			changes{{Connected, 1}, {Suspended, 1}, {Reconnected, 1}}},
		{"expired: no second Suspended", []step{{up, 1}, {down, 1}, {lost, 1}, {down, 2}, {up, 2}},
			changes{{Connected, 1}, {Suspended, 1}, {Lost, 1}, {Reconnected, 2}}},
		{
			"lost while connected", []step{{up, 1}, {lost, 1}, {up, 2}},
			changes{{Connected, 1}, {Lost, 1}, {Reconnected, 2}},
		},
		{"lost twice without a connection in between", []step{{up, 1}, {lost, 1}, {lost, 2}, {up, 3}},
			changes{{Connected, 1}, {Lost, 1}, {Reconnected, 3}}},
		{"read-only first does not use Connected up", []step{{ro, 1}, {ro, 1}, {down, 1}, {up, 1}},
			changes{{ReadOnly, 1}, {Suspended, 1}, {Connected, 1}}},
		{
			"read-only later", []step{{up, 1}, {ro, 1}, {up, 1}},
			changes{{Connected, 1}, {ReadOnly, 1}, {Reconnected, 1}},
		},
		{
			"read-only only, then lost", []step{{ro, 1}, {lost, 1}, {ro, 2}},
			changes{{ReadOnly, 1}, {Lost, 1}, {ReadOnly, 2}},
		},
		{"the past has no say", []step{{up, 1}, {lost, 1}, {up, 1}, {down, 1}, {lost, 1}, {up, 2}, {lost, 1}},
			changes{{Connected, 1}, {Lost, 1}, {Reconnected, 2}}},
		{"nothing after close", []step{{up, 1}, {end, 0}, {down, 1}, {lost, 1}, {end, 0}}, changes{{Connected, 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := stateMachine{epoch: 1}
			var got changes
			for _, s := range tt.steps {
				var todo []machineEffect
				m, todo = m.next(machineInput(s))
				got = append(got, announced(todo)...)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestMachineEndsBeforeItTells(t *testing.T) {
	m := stateMachine{epoch: 1}
	m, _ = m.next(machineInput{inConnected, 1})
	m, todo := m.next(machineInput{inLost, 1})
	assert.Equal(t, []machineEffect{
		{doLose, StateChange{Epoch: 1}}, {doOpen, StateChange{Epoch: 2}}, {doAnnounce, StateChange{Lost, 1}},
	}, todo)
	m, _ = m.next(machineInput{inConnected, 2})
	_, todo = m.next(machineInput{inDisconnected, 2})
	assert.Equal(t, []machineEffect{{doSuspend, StateChange{Epoch: 2}}, {doAnnounce, StateChange{Suspended, 2}}}, todo)
}

// may holds the states that may follow each state.
var may = map[State][]State{
	NeverConnected: {Connected, ReadOnly},
	Connected:      {Suspended, Lost, ReadOnly},
	Reconnected:    {Suspended, Lost, ReadOnly},
	Suspended:      {Connected, Reconnected, Lost, ReadOnly},
	ReadOnly:       {Connected, Reconnected, Suspended, Lost},
	Lost:           {Connected, Reconnected, ReadOnly},
}

// FuzzMachine applies any inputs, two bits of epoch and three of kind per byte, and checks the properties that subscribers
// rely on.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{1, 3, 1, 4, 9, 11, 12})
	f.Add([]byte{2, 1, 4, 10, 9, 5, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		m := stateMachine{epoch: 1}
		var last StateChange
		greetings, live := 0, int64(1)
		for _, b := range in {
			var todo []machineEffect
			wasClosed := m.closed
			m, todo = m.next(machineInput{inputKind(b&7) % (inClose + 2), m.epoch - int64(b>>3&3)})
			require.False(t, wasClosed && len(todo) > 0, "something happens after close")
			for i, e := range todo {
				switch e.kind {
				case doLose:
					require.Equal(t, live, e.change.Epoch)
					require.Less(t, i+1, len(todo))
					require.Equal(t, doOpen, todo[i+1].kind, "a lost epoch is followed by the next at once")
				case doOpen:
					live++
					require.Equal(t, live, e.change.Epoch)
				case doAttach, doSuspend, doClose:
					require.Equal(t, live, e.change.Epoch)
				case doAnnounce:
					c := e.change
					require.Contains(t, may[last.State], c.State, "%v after %v", c, last)
					require.Equal(t, i, len(todo)-1, "announced before it is done")
					if c.State == Lost {
						require.Equal(t, live-1, c.Epoch)
						require.Equal(t, last.Epoch, c.Epoch)
					} else {
						require.Equal(t, live, c.Epoch)
						if last.State == Lost {
							require.Greater(t, c.Epoch, last.Epoch)
						}
					}
					if c.State == Connected {
						greetings++
						require.Equal(t, 1, greetings)
					}
					last = c
				}
			}
		}
	})
}

func TestNamesOfStates(t *testing.T) {
	assert.Equal(t, "ReadOnly", ReadOnly.String())
	assert.Equal(t, "State(6)", (ReadOnly + 1).String())
	assert.Equal(t, "State(-1)", State(-1).String())
}
