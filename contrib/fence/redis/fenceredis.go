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
// The newest token is a key without an expiry next to the data, one for each resource. It is as durable as they are:
// a replica that is promoted before it has received a write has neither the write nor its token. Do not let Redis
// evict it: maxmemory-policy must not be one of allkeys-….
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

// WithPrefix sets the prefix of the tokens' keys; they end in the resource, in braces. Default [DefaultPrefix]. It
// must not have braces.
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

// refused begins the error of a script that was refused. The newest token follows.
const refused = "FENCEOUTDATED "

// guard has the body run as a function with the KEYS and ARGV that are left, if the token is not older. Tokens
// are compared as texts of one length: Lua's numbers are exact up to 2^53 only.
const guard = `local newest = redis.call('GET', KEYS[1])
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

// NewScript makes a script of Lua that has KEYS and ARGV, and returns a value, as any other; the fence is invisible
// to it.
func NewScript(lua string) *Script { return &Script{redis.NewScript(fmt.Sprintf(guard, lua))} }

// Run runs the script if no larger token was seen for the resource, and remembers the token. The same token
// again passes. Else nothing is done, and the error matches fence.ErrOutdated, a *fence.OutdatedError.
//
// Each key must have the resource as its hash tag ("{orders}:total"), see [Key]; a resource has no braces.
// Otherwise, and with a wrong token, the error matches fence.ErrBadArguments and nothing is sent. Other errors
// are go-redis's, redis.Nil among them. go-redis repeats a script whose answer was lost: if repeating the
// script would do harm, set MaxRetries to -1.
func (f *Fence) Run(
	ctx context.Context, resource string, token int64, script *Script, keys []string, args ...any,
) (any, error) {
	if err := f.check(resource, token, script, keys); err != nil {
		return nil, err
	}
	all := append([]string{f.prefix + "{" + resource + "}"}, keys...)
	args = append([]any{fmt.Sprintf("%019d", token)}, args...)
	result, err := script.script.Run(ctx, f.client, all, args...).Result()
	if err == nil {
		return result, nil
	}
	if _, text, ok := strings.Cut(err.Error(), refused); ok {
		newest, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // 0 if it is not known
		return nil, fmt.Errorf("fence: %w", &fence.OutdatedError{Resource: resource, Token: token, Newest: newest})
	}
	return nil, fmt.Errorf("fence: running a script for %q: %w", resource, err)
}

func (f *Fence) check(resource string, token int64, script *Script, keys []string) error {
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
	set   = NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	setPX = NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
	del   = NewScript(`return redis.call('DEL', unpack(KEYS))`)
	admit = NewScript(`return 1`)
)

// Set sets a key to a value, as SET does, if the token is not outdated. It expires after ttl, which is rounded
// up to whole milliseconds; 0 or less: it does not. For arguments and errors see [Fence.Run].
func (f *Fence) Set(
	ctx context.Context, resource string, token int64, key string, value any, ttl time.Duration,
) error {
	var err error
	if ttl > 0 {
		ms := (ttl + time.Millisecond - 1).Milliseconds()
		_, err = f.Run(ctx, resource, token, setPX, []string{key}, value, ms)
	} else {
		_, err = f.Run(ctx, resource, token, set, []string{key}, value)
	}
	return err
}

// Del deletes keys if the token is not outdated. The token is kept. For arguments and errors see [Fence.Run].
func (f *Fence) Del(ctx context.Context, resource string, token int64, keys ...string) error {
	if len(keys) == 0 {
		return fmt.Errorf("fence: %w: no keys to delete", fence.ErrBadArguments)
	}
	_, err := f.Run(ctx, resource, token, del, keys)
	return err
}

// Admit implements fence.Store, for a fence.Gate: it remembers the token without a write.
func (f *Fence) Admit(ctx context.Context, resource string, token int64) error {
	_, err := f.Run(ctx, resource, token, admit, nil)
	return err
}
