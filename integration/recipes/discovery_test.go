package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/node"
)

// info is Java's Info.
type info struct {
	Version string `json:"version"`
	Weight  int    `json:"weight"`
}

// services returns the services below base, whose instances have payloads of any kind.
func services[T any](t *testing.T, c *framework.Client, base string, opts ...discovery.Option) *discovery.Discovery[T] {
	t.Helper()
	d, err := discovery.New[T](c, base, opts...)
	require.NoError(t, err)
	return d
}

// said returns an instance as the Java peer prints it.
func said[T any](i discovery.Instance[T], class, payload string) string {
	null := func(empty bool, v any) string {
		if empty {
			return "null"
		}
		return fmt.Sprint(v)
	}
	return strings.Join([]string{i.Name + "/" + i.ID, null(i.Address == "", i.Address), null(i.Port == 0, i.Port),
		null(i.SSLPort == 0, i.SSLPort), i.Type.String(), fmt.Sprint(i.RegistrationTime.UnixMilli()),
		fmt.Sprint(!i.Disabled), null(i.URISpec == "", i.URI(nil)), class, payload}, " ")
}

// bytesOf returns the data of a node.
func (w *world) bytesOf(t *testing.T, path string) string {
	t.Helper()
	data, err := w.client.GetData().ForPath(kit.Context(t), path)
	require.NoError(t, err)
	return string(data)
}

// Go reads Java's registrations field by field, and writes the same bytes. And Java reads the data that Go has written.
func TestInstancesByteForByte(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "service discovery", kit.GoToJava, kit.JavaToGo)
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs := map[bool]*javapeer.Discovery{}
	for full, name := range map[bool]string{false: "compatible", true: "full"} {
		d, err := w.peer.Discovery(ctx, name, "/java-"+name, full, false)
		require.NoError(t, err)
		theirs[full] = d
	}
	back, err := w.peer.Discovery(ctx, "reader", "/go", false, false)
	require.NoError(t, err)
	raw := services[json.RawMessage](t, w.client, "/go")
	for _, c := range []struct {
		fields         []string
		class, payload string // as Java sees them
		disabled       bool
	}{
		{[]string{"id=bare"}, "null", "null", false},
		{[]string{"id=all", "address=10.0.0.1", "port=80", "ssl=443", "text=pl", "type=STATIC",
			"uri={scheme}://{address}:{ssl-port}/{id}?{[}{]}"}, "String", "pl", false},
		{[]string{"id=text", "text=quotes \" \\ / and ü € \U0001F600 \t\u2028 <&>"}, "String",
			"quotes \" \\ / and ü € \U0001F600 \t\u2028 <&>", false},
		{[]string{"id=number", "number=-5", "type=PERMANENT"}, "Integer", "-5", false},
		{[]string{"id=long", "long=5"}, "Long", "5", false},
		{[]string{"id=list", "list=a,b"}, "ArrayList", "[a, b]", false},
		{[]string{"id=map", "map=k,l"}, "LinkedHashMap", "{k=0, l=1}", false},
		{[]string{"id=info", "info=1.2,7"}, "Info", "1.2,7", false},
		{[]string{"id=off", "enabled=false", "address=host"}, "null", "null", true},
	} {
		id := strings.TrimPrefix(c.fields[0], "id=")
		fields := append([]string{"name=svc", "time=1700000000005"}, c.fields...)
		require.NoError(t, theirs[c.disabled].Register(ctx, fields...), id)
		base := "/java-compatible"
		if c.disabled {
			base = "/java-full"
		}
		written := w.bytesOf(t, base+"/svc/"+id)

		read, err := services[json.RawMessage](t, w.client, base).Instance(ctx, "svc", id)
		require.NoError(t, err)
		require.Equal(t, c.disabled, read.Disabled, id)
		ours, err := raw.Register(ctx, read)
		require.NoError(t, err, id)
		require.Equal(t, written, w.bytesOf(t, ours.Path()), id)
		told, err := back.Instance(ctx, "svc", id)
		require.NoError(t, err, id)
		require.Equal(t, said(read, c.class, c.payload), told)
		owned, err := w.client.CheckExists().ForPath(ctx, ours.Path())
		require.NoError(t, err)
		require.Equal(t, read.Type == discovery.Dynamic, owned.EphemeralOwner != 0, id)
		require.NoError(t, ours.Unregister(ctx))
		_, err = back.Instance(ctx, "svc", id)
		require.ErrorIs(t, err, javapeer.ErrTimeout)
	}
	// Go reads an enabled instance with "enabled" in it as any other, and writes it without.
	require.NoError(t, theirs[true].Register(ctx, "name=svc", "id=on", "time=5"))
	read, err := services[any](t, w.client, "/java-full").Instance(ctx, "svc", "on")
	require.NoError(t, err)
	require.False(t, read.Disabled)
	require.Contains(t, w.bytesOf(t, "/java-full/svc/on"), `"enabled":true`)

	// A payload that is an object is a Map in Java, or of the class that its client names.
	plain := services[info](t, w.client, "/go")
	classed := services[info](t, w.client, "/go", discovery.WithPayloadClass("Info"))
	for _, c := range []struct {
		services       *discovery.Discovery[info]
		class, payload string
	}{{plain, "LinkedHashMap", "{version=1.2, weight=7}"}, {classed, "Info", "1.2,7"}} {
		r, err := c.services.Register(ctx, discovery.Instance[info]{Name: "svc", ID: c.class, Payload: info{"1.2", 7}})
		require.NoError(t, err)
		read, err := plain.Instance(ctx, "svc", c.class)
		require.NoError(t, err)
		require.Equal(t, info{"1.2", 7}, read.Payload)
		told, err := back.Instance(ctx, "svc", c.class)
		require.NoError(t, err)
		require.Equal(t, said(read, c.class, c.payload), told)
		require.NoError(t, r.Unregister(ctx))
	}
	read2, err := services[info](t, w.client, "/java-compatible").Instance(ctx, "svc", "info")
	require.NoError(t, err)
	require.Equal(t, info{"1.2", 7}, read2.Payload)
	for _, d := range theirs {
		require.NoError(t, d.Close(ctx))
	}
	for _, base := range []string{"/java-compatible", "/java-full", "/go"} {
		w.gone(t, base) // including the static instances
	}
}

// The same ID in both languages. Go takes it from Java, in one transaction. Java deletes an existing node and creates
// its own; if Go's is back before that, Java deletes that, too, and gives up. So one of them has it.
func TestOneIDInBothLanguages(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "service discovery", kit.Mixed)
	const base = "/services"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Discovery(ctx, "d", base, false, false)
	require.NoError(t, err)
	ours := services[any](t, w.client, base)
	shows := func(want string) {
		t.Helper()
		read, err := theirs.Instances(ctx, "web")
		require.NoError(t, err)
		require.Equal(t, []string{want}, read)
		i, err := ours.Instance(ctx, "web", "one")
		require.NoError(t, err)
		class := "null"
		if i.Payload != nil {
			class = "String"
		}
		require.Equal(t, want, said(i, class, strings.ReplaceAll(fmt.Sprint(i.Payload), "<nil>", "null")))
	}
	fields := []string{"name=web", "id=one", "address=10.0.0.2", "port=81", "time=5"}
	require.NoError(t, theirs.Register(ctx, append(fields, "text=v1")...))
	shows("web/one 10.0.0.2 81 null DYNAMIC 5 true null String v1")
	taken, err := ours.Register(ctx,
		discovery.Instance[any]{Name: "web", ID: "one", RegistrationTime: time.UnixMilli(7)})
	require.NoError(t, err)
	shows("web/one null null null DYNAMIC 7 true null null null")
	require.NoError(t, theirs.Register(ctx, append(fields, "text=v2")...))
	kit.Soon(t, "one of them has it", func() bool {
		stat, err := w.client.CheckExists().ForPath(ctx, base+"/web/one")
		status := taken.Status()
		return err == nil && stat != nil &&
			(status.State == node.There && status.Czxid == stat.Czxid || status.Other && status.Owner == stat.EphemeralOwner)
	})
	require.NoError(t, taken.Unregister(ctx))
	require.NoError(t, theirs.Register(ctx, append(fields, "text=v3")...))
	shows("web/one 10.0.0.2 81 null DYNAMIC 5 true null String v3")
	names, err := ours.Names(ctx)
	require.NoError(t, err)
	javaNames, err := theirs.Names(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"web"}, names)
	require.Equal(t, names, javaNames)
	require.NoError(t, theirs.Unregister(ctx, fields...))
	require.NoError(t, theirs.Close(ctx))
	w.gone(t, base)
}

// Go reads a sequential instance of Java's like its own, under its node's name. Java reads those of Go, whose names
// have a prefix.
func TestSequentialInstances(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "service discovery", kit.GoToJava, kit.JavaToGo)
	const base = "/sequential"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirs, err := w.peer.Discovery(ctx, "d", base, false, false)
	require.NoError(t, err)
	ours := services[any](t, w.client, base)
	var mine []*discovery.Registration[any]
	for range 2 {
		r, err := ours.Register(ctx, discovery.Instance[any]{Name: "s", ID: "i", Type: discovery.DynamicSequential,
			RegistrationTime: time.UnixMilli(5)})
		require.NoError(t, err)
		mine = append(mine, r)
	}
	require.NoError(t, theirs.Register(ctx, "name=s", "id=i", "type=DYNAMIC_SEQUENTIAL", "time=5"))
	const each = "s/i null null null DYNAMIC_SEQUENTIAL 5 true null null null"
	read, err := theirs.Instances(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, []string{each, each, each}, read)
	all, err := ours.Instances(ctx, "s")
	require.NoError(t, err)
	require.Len(t, all, 3)
	nodes := w.nodes(t, base+"/s")[1:]
	for i, want := range []string{"/_c_GUID-i0000000000", "/_c_GUID-i0000000001", "/i0000000002"} {
		require.True(t, strings.HasPrefix(nodes[i], want+" ephemeral"), nodes[i])
		require.Equal(t, nodes[0][strings.Index(nodes[0], " "):], nodes[i][strings.Index(nodes[i], " "):])
	}
	for _, r := range mine {
		require.NoError(t, r.Unregister(ctx))
	}
	w.count(t, base+"/s", 1)
	require.NoError(t, w.peer.KillSession(ctx)) // Java's unregister uses another path
	limited, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	require.NoError(t, theirs.Close(limited))
}
