package framework

import (
	"crypto/tls"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
)

func TestInvalidOptions(t *testing.T) {
	for name, opt := range map[string]Option{
		"WithSessionTimeout":    WithSessionTimeout(0),
		"WithSessionTimeout: -": WithSessionTimeout(-time.Second),
		"WithSessionTimeout: +": WithSessionTimeout(1000 * time.Hour),
		"WithConnectionTimeout": WithConnectionTimeout(0),
		"WithDialTimeout":       WithDialTimeout(-1),
		"WithClosingTimeout":    WithClosingTimeout(0),
		"WithRetry":             WithRetry(nil),
		"WithAuth":              WithAuth("", []byte("x")),
		"WithACLProvider":       WithACLProvider(nil),
		"WithDefaultACL":        WithDefaultACL(),
		"WithTLS":               WithTLS(nil),
		"WithDialer":            WithDialer(nil),
		"WithLogger":            WithLogger(nil),
		"WithMaxFrame":          WithMaxFrame(0),
		"WithMaxReply":          WithMaxReply(0),
		"WithWindow":            WithWindow(0),
		"WithRule":              WithRule(7),
		"WithStaleServerBound":  WithStaleServerBound(-1),
		"WithServerTick":        WithServerTick(0),
		"WithSafetyMargin":      WithSafetyMargin(-1),
		"WithFenceGrace":        WithFenceGrace(-1),
		"OnStateChange":         OnStateChange(nil),
		"nil":                   nil,
	} {
		_, err := New("zk", opt)
		require.ErrorIs(t, err, ErrInvalidOption, name)
	}
	_, err := New("zk", WithSessionTimeout(0))
	assert.EqualError(t, err, "invalid option WithSessionTimeout: 0s is out of range; give a time that "+
		"the server is likely to grant, such as 10*time.Second")
	_, err = New("zk", WithNamespace("a//b"))
	assert.ErrorIs(t, err, ErrInvalidPath)
	_, err = New("")
	assert.ErrorIs(t, err, ErrInvalidConnectString)
}

func TestOptionsAtTheirLimits(t *testing.T) {
	o := defaultOptions()
	for i, opt := range []Option{
		WithSessionTimeout(time.Millisecond), WithSessionTimeout(math.MaxInt32 * time.Millisecond), WithMaxFrame(1024), WithMaxFrame(math.MaxInt32),
		WithMaxReply(1024), WithMaxReply(math.MaxInt32), WithWindow(1), WithRule(RuleAuto), WithStaleServerBound(0),
	} {
		assert.NoError(t, opt(&o), i)
	}
}

func TestOptionsAreCopies(t *testing.T) {
	o := defaultOptions()
	auth, data, acl := []byte("me:secret"), []byte("data"), CreatorACL()
	cfg := &tls.Config{ServerName: "a"}
	for _, opt := range []Option{WithAuth("digest", auth), WithAuth("ip", nil), WithDefaultData(data),
		WithDefaultACL(acl...), WithTLS(cfg)} {
		require.NoError(t, opt(&o))
	}
	auth[0], data[0], acl[0].Scheme, cfg.ServerName = 'X', 'X', "X", "X"
	assert.Equal(t, "me:secret", string(o.credentials[0].Auth))
	assert.Equal(t, "ip", o.credentials[1].Scheme, "the second is added")
	assert.Equal(t, "data", string(o.defaultData))
	assert.Equal(t, "auth", o.aclProvider("/x")[0].Scheme)
	assert.Equal(t, "a", o.tls.ServerName)
}

func TestDefaults(t *testing.T) {
	o := defaultOptions()
	assert.Equal(t, 60*time.Second, o.sessionTimeout)
	assert.Equal(t, 15*time.Second, o.connectTimeout)
	assert.Equal(t, 5*time.Second, o.dialTimeLimit())
	assert.Equal(t, retry.ExponentialBackoff{Base: time.Second, Retries: 3}, o.retry)
	assert.Equal(t, 13*time.Second, o.bound)
	o.sessionTimeout = 6 * time.Second
	assert.Equal(t, 2*time.Second, o.dialTimeLimit())
	o.dialTimeout = time.Second
	assert.Equal(t, time.Second, o.dialTimeLimit())
}
