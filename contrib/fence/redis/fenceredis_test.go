package fenceredis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/contrib/fence"
	fenceredis "github.com/go-curator/curator/contrib/fence/redis"
	"github.com/go-curator/curator/contrib/fence/redis/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInMemory(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	redistest.Run(t, client)
}

func TestArguments(t *testing.T) {
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	f := fenceredis.New(client, nil)
	key := fenceredis.Key("orders", "a")
	for _, err := range []error{
		f.Set(ctx, "orders", 0, key, 1, 0),
		f.Set(ctx, "", 1, fenceredis.Key("", "a"), 1, 0),
		f.Set(ctx, "or}ders", 1, key, 1, 0),
		f.Set(ctx, "orders", 1, "total", 1, 0),
		f.Set(ctx, "orders", 1, "{stock}:total", 1, 0),
		f.Set(ctx, "orders", 1, "{}{orders}", 1, 0),
		f.Set(ctx, "orders", 1, "{orders", 1, 0),
		f.Del(ctx, "orders", 1),
		f.Del(ctx, "orders", 1, key, "other"),
		fenceredis.New(client, fenceredis.WithPrefix("{x}")).Admit(ctx, "orders", 1),
		fenceredis.New(nil).Admit(ctx, "orders", 1),
		(*fenceredis.Fence)(nil).Admit(ctx, "orders", 1),
	} {
		assert.ErrorIs(t, err, fence.ErrBadArguments)
	}
	_, err := f.Run(ctx, "orders", 1, nil, nil)
	assert.ErrorIs(t, err, fence.ErrBadArguments)
	assert.NotErrorIs(t, f.Admit(ctx, "orders", 1), fence.ErrBadArguments, "there is no server")
}

func Example() {
	server, err := miniredis.Run() // your server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	ctx := context.Background()
	fences := fenceredis.New(client)

	// Two holders, one after the other; their tokens are from fence.From.
	stock := fenceredis.Key("stock", "apples")
	fmt.Println(fences.Set(ctx, "stock", 17, stock, 3, 0))
	take := fenceredis.NewScript(`return redis.call('DECR', KEYS[1])`)
	left, err := fences.Run(ctx, "stock", 23, take, []string{stock})
	fmt.Println(left, err)
	fmt.Println(fences.Set(ctx, "stock", 17, stock, 4, 0)) // the former holder, late
	fmt.Println(client.Get(ctx, stock).Val(), "apples")
	// Output:
	// <nil>
	// 2 <nil>
	// fence: the fencing token is outdated: 17 for "stock", where 23 was seen
	// 2 apples
}
