package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Each of three servers has to refuse, and for the session timeout, before the client tries anything else; from then on
// every second handshake claims no zxid.
func TestAdmissionAfterHandshakesThatWereClosed(t *testing.T) {
	var a refusalRecord
	at := clockReading{t: time.Now()}
	step := func(d time.Duration, session bool) bool {
		at.t = at.t.Add(d)
		return a.recordHangUp(at, 3, 10*time.Second, session)
	}
	for range 3 {
		assert.False(t, step(0, false), "not each of them")
	}
	assert.False(t, step(9*time.Second, false), "not for long enough")
	for probe := true; a.hangUps < 10; probe = !probe {
		assert.True(t, step(time.Second, false))
		assert.Equal(t, probe, a.zeroZxid, "after %d", a.hangUps)
	}
	a.recordAdmission()
	assert.False(t, a.zeroZxid)

	for range 3 {
		assert.False(t, step(10*time.Second, true), "for long enough, but not more often than there are servers")
	}
	a.recordAdmission()
	for range 4 {
		step(0, true)
	}
	assert.True(t, step(10*time.Second, true))
	assert.False(t, a.zeroZxid, "a session is nothing to be replaced by a fresh one")
}

func TestAdmissionOfCredentials(t *testing.T) {
	var a refusalRecord
	all := func(set map[string]bool) bool { return len(set) == 2 }
	why, last := errors.New("why"), errors.New("last")
	assert.False(t, a.recordRefusal("one", why, all))
	assert.False(t, a.recordRefusal("one", why, all), "the same one again")
	assert.NoError(t, a.refused)
	assert.True(t, a.recordRefusal("two", last, all))
	assert.Equal(t, last, a.refused)
	a.authRequired = true
	a.recordAdmission()
	assert.Equal(t, refusalRecord{authRequired: true}, a, "what a server wants is not forgotten")
}

func TestWhatHandshakesMayHaveLeft(t *testing.T) {
	var b sessionIdentity
	assert.False(t, b.mayOutlive(), "there was none")
	b.beginHandshake()
	assert.True(t, b.mayOutlive(), "it may have opened one at this moment")
	b.maybeOpened = false
	assert.False(t, b.mayOutlive(), "the server has said that it has not")
	handshake := b.handshake
	b.endHandshake()
	<-handshake
	assert.Equal(t, sessionIdentity{}, b)

	b.beginHandshake()
	b.endHandshake()
	assert.True(t, b.mayOutlive(), "nobody has said so")
	b.beginHandshake()
	b.recordConnection(0, nil, 0, false)
	b.endHandshake()
	assert.True(t, b.mayOutlive(), "a member without a quorum knows nothing of it")
	b.beginHandshake()
	b.recordConnection(0, nil, 0, true)
	b.endHandshake()
	assert.Equal(t, sessionIdentity{quorumConfirmed: true}, b)
	assert.True(t, b.mayOutlive(), "this one")
}
