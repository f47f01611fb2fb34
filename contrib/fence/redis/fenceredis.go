// Package fenceredis fences writes to Redis and to servers that speak its protocol: one script checks the newest
// token and writes, atomically.
//
//	fences := fenceredis.New(client)
//
//	token, err := fence.From(ctx)
//	…
//	err = fences.Set(ctx, "orders", token, fenceredis.Key("orders", "total"), 42, 0)
//	if errors.Is(err, fence.ErrOutdated) { … } // another client has held the lock since
//
// All keys of a call have the resource as their hash tag, so it works in a cluster as it does with one server.
//
// The newest token is stored next to the data, in one key for each resource, which does not expire. It is as durable as
// the data: a replica that is promoted before it has received a write has neither the write nor its token. Do not let
// Redis evict it: maxmemory-policy must not be one of allkeys-….
//
// It is a separate module, so that others do not get go-redis.
package fenceredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-curator/curator/contrib/fence"
)

// DefaultPrefix is the prefix of the tokens' keys.
const DefaultPrefix = "curator-fence:"

// Fence guards the writes of a client. Safe for concurrent use.
type Fence struct {
	client redis.UniversalClient
	prefix string
}

// Option changes what [New] makes. If one is given several times the last counts.
type Option func(*Fence)

// WithPrefix sets the prefix of the tokens' keys, which must have no braces; after it a key has the resource, in
// braces. Default [DefaultPrefix].
func WithPrefix(prefix string) Option { return func(f *Fence) { f.prefix = prefix } }

// New makes a Fence. It sends nothing. If an argument is wrong, every method returns an error that matches
// fence.ErrBadArguments.
func New(client redis.UniversalClient, opts ...Option) *Fence {
	f := &Fence{client, DefaultPrefix}
	for _, o := range opts {
		if o != nil {
			o(f)
		}
	}
	return f
}

// Key returns a key for data of the resource: the resource in braces, a colon and the name.
func Key(resource, name string) string { return "{" + resource + "}:" + name }

// outdatedPrefix is the beginning of the error with which a guarded script refuses a token. The newest token follows.
const outdatedPrefix = "FENCEOUTDATED "

// guardScript checks the token, the first of ARGV, and stores it, in the first of KEYS. Then it runs the user's script
// as a function, with the rest of KEYS and ARGV. Tokens are compared as texts of one length, since Lua's numbers are
// exact only up to 2^53.
const guardScript = `local newest = redis.call('GET', KEYS[1])
if newest and newest > ARGV[1] then return redis.error_reply('FENCEOUTDATED ' .. newest) end
redis.call('SET', KEYS[1], ARGV[1])
local function body(KEYS, ARGV)
%s
end
local keys, argv = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 2, #ARGV do argv[i - 1] = ARGV[i] end
return body(keys, argv)`

// Script is a script with a fence in front of it. Make it once, with [NewScript]. Safe for concurrent use.
type Script struct{ script *redis.Script }

// NewScript makes a Script of a script in Lua. That has KEYS and ARGV, and returns a value, as a script without a fence
// does.
func NewScript(lua string) *Script { return &Script{redis.NewScript(fmt.Sprintf(guardScript, lua))} }

// Run stores the token and runs the script, unless a larger token is stored for the resource: then it does nothing, and
// the error matches fence.ErrOutdated, with errors.As *fence.OutdatedError. A token may be used several times. Run
// blocks until the server has replied or ctx ends.
//
// Each key must have the resource as its hash tag ("{orders}:total"), see [Key]; a resource has no braces. Otherwise,
// and if the token is not positive, the error matches fence.ErrBadArguments and nothing is sent. Other errors are
// go-redis's, redis.Nil among them. go-redis repeats a script whose reply was lost: if a repeat would do harm, set
// MaxRetries to -1.
func (f *Fence) Run(
	ctx context.Context, resource string, token int64, script *Script, keys []string, args ...any,
) (any, error) {
	if err := f.checkArguments(resource, token, script, keys); err != nil {
		return nil, err
	}
	all := append([]string{f.prefix + "{" + resource + "}"}, keys...)
	args = append([]any{fmt.Sprintf("%019d", token)}, args...)
	result, err := script.script.Run(ctx, f.client, all, args...).Result()
	if err == nil {
		return result, nil
	}
	if _, text, ok := strings.Cut(err.Error(), outdatedPrefix); ok {
		newest, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // 0 if it is not known
		return nil, fmt.Errorf("fence: %w", &fence.OutdatedError{Resource: resource, Token: token, Newest: newest})
	}
	return nil, fmt.Errorf("fence: running a script for %q: %w", resource, err)
}

func (f *Fence) checkArguments(resource string, token int64, script *Script, keys []string) error {
	wrong := ""
	switch {
	case f == nil || f.client == nil:
		wrong = "the Fence has no client"
	case script == nil || script.script == nil:
		wrong = "there is no script"
	case strings.ContainsAny(resource, "{}"):
		wrong = fmt.Sprintf("the resource %.300q has braces", resource)
	case strings.ContainsAny(f.prefix, "{}"):
		wrong = fmt.Sprintf("the prefix %q has braces", f.prefix)
	}
	for _, key := range keys {
		if hashTag(key) != resource {
			wrong = fmt.Sprintf("the key %.300q does not have the hash tag {%s}", key, resource)
		}
	}
	if wrong != "" {
		return fmt.Errorf("fence: %w: %s", fence.ErrBadArguments, wrong)
	}
	return fence.Check(resource, token)
}

// hashTag returns the part of a key that selects its slot in a cluster, "" for all of it.
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return ""
	}
	return tag
}

var (
	setScript       = NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	setWithTTL      = NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
	deleteScript    = NewScript(`return redis.call('DEL', unpack(KEYS))`)
	tokenOnlyScript = NewScript(`return 1`)
)

// Set sets a key to a value, as SET does, if the token is not outdated. The key expires after ttl, which is rounded up
// to whole milliseconds; with 0 or less it does not expire. For arguments and errors see [Fence.Run].
func (f *Fence) Set(
	ctx context.Context, resource string, token int64, key string, value any, ttl time.Duration,
) error {
	var err error
	if ttl > 0 {
		ms := (ttl + time.Millisecond - 1).Milliseconds()
		_, err = f.Run(ctx, resource, token, setWithTTL, []string{key}, value, ms)
	} else {
		_, err = f.Run(ctx, resource, token, setScript, []string{key}, value)
	}
	return err
}

// Del deletes keys if the token is not outdated. The key with the token stays. For arguments and errors see
// [Fence.Run].
func (f *Fence) Del(ctx context.Context, resource string, token int64, keys ...string) error {
	if len(keys) == 0 {
		return fmt.Errorf("fence: %w: no keys to delete", fence.ErrBadArguments)
	}
	_, err := f.Run(ctx, resource, token, deleteScript, keys)
	return err
}

// Admit implements fence.Store, for a fence.Gate: it stores the token, and writes nothing else.
func (f *Fence) Admit(ctx context.Context, resource string, token int64) error {
	_, err := f.Run(ctx, resource, token, tokenOnlyScript, nil)
	return err
}
