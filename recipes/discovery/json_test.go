package discovery

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Written by Curator 5.4's JsonInstanceSerializer, byte for byte.
const (
	goldenFull = `{"name":"svc","id":"id-1","address":"10.0.0.1","port":80,"sslPort":443,"payload":"pl",` +
		`"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},` +
		`{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},` +
		`{"value":"port","variable":true},{"value":"/x","variable":false},{"value":"foo","variable":true}]}}`
	goldenDisabled = `{"name":"svc","id":"id-1","address":"10.0.0.1","port":80,"sslPort":443,"payload":"pl",` +
		`"registrationTimeUTC":5,"serviceType":"DYNAMIC_SEQUENTIAL","uriSpec":null,"enabled":false}`
	goldenNulls = `{"name":"svc","id":"id","address":null,"port":null,"sslPort":null,"payload":null,` +
		`"registrationTimeUTC":0,"serviceType":"STATIC","uriSpec":null}`
)

func around(payload string) string {
	return `{"name":"n","id":"i","address":"a","port":80,"sslPort":null,"payload":` + payload +
		`,"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":null}`
}

func bothWays[T any](t *testing.T, golden, class string, want Instance[T]) {
	t.Helper()
	got, err := decodeInstance[T]([]byte(golden), 1)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	text, err := encodeInstance(want, class)
	require.NoError(t, err)
	assert.Equal(t, golden, string(text))
}

func of[T any](payload T) Instance[T] {
	return Instance[T]{Name: "n", ID: "i", Address: "a", Port: 80, Payload: payload,
		RegistrationTime: time.UnixMilli(5).UTC()}
}

func TestGolden(t *testing.T) {
	at := time.UnixMilli(5).UTC()
	bothWays(t, goldenFull, "", Instance[string]{Name: "svc", ID: "id-1", Address: "10.0.0.1", Port: 80, SSLPort: 443,
		Payload: "pl", RegistrationTime: at, URISpec: "{scheme}://{address}:{port}/x{foo}"})
	bothWays(t, goldenDisabled, "", Instance[string]{Name: "svc", ID: "id-1", Address: "10.0.0.1", Port: 80,
		SSLPort: 443, Payload: "pl", RegistrationTime: at, Type: DynamicSequential, Disabled: true})
	bothWays(t, goldenNulls, "", Instance[any]{Name: "svc", ID: "id", Type: Static})
}

type info struct {
	Version string   `json:"version"`
	Weight  int      `json:"weight"`
	Tags    []string `json:"tags"`
}

// The type that Java adds to a payload is written as Java writes it, and removed when read.
func TestGoldenPayloads(t *testing.T) {
	bothWays(t, around(`"s"`), "", of("s"))
	bothWays(t, around(`1`), "", of(1))
	bothWays(t, around(`true`), "", of(true))
	bothWays(t, around(`1.5`), "", of(1.5))
	bothWays(t, around(`["java.lang.Long",1]`), "java.lang.Long", of(int64(1)))
	bothWays(t, around(`{"@class":"G$P","version":"1","weight":3,"tags":["a"]}`), "G$P", of(info{"1", 3, []string{"a"}}))
	bothWays(t, around(`{"@class":"java.util.LinkedHashMap","k":"v"}`), "java.util.LinkedHashMap",
		of(map[string]string{"k": "v"}))
	bothWays(t, around(`{"@class":"java.util.LinkedHashMap"}`), "java.util.LinkedHashMap", of(map[string]int{}))
	bothWays(t, around(`{"@class":"java.util.LinkedHashMap","k":"v"}`), "java.util.LinkedHashMap",
		of[any](map[string]any{"k": "v"}))
	bothWays(t, around(`["java.util.ArrayList",["a"]]`), "", of([]string{"a"}))
	bothWays(t, around(`["java.util.ArrayList",["java.lang.Long","a"]]`), "", of([]string{"java.lang.Long", "a"}))
	bothWays(t, around(`["[Ljava.lang.String;",["a"]]`), "[Ljava.lang.String;", of([]string{"a"}))
	bothWays(t, around(`null`), "G$P", of[*info](nil))
	bothWays(t, around(`{"@class":"G$P","x":["java.lang.Long",5]}`), "ignored",
		of(json.RawMessage(`{"@class":"G$P","x":["java.lang.Long",5]}`)))
	type classed struct {
		Class string `json:"@class"`
		N     int    `json:"n"`
	}
	bothWays(t, around(`{"@class":"G$P","n":5}`), "ignored", of(classed{"G$P", 5}))
}

// A string with each kind of character that needs an escape.
func TestGoldenEscapes(t *testing.T) {
	text := ""
	for c := rune(0); c <= 0x20; c++ {
		text += string(c)
	}
	text += "\"\\/<>&'\u007f\u0080\u2028\u2029\u00e4\u20ac\ufeff\uffff\U0001F600"
	bothWays(t, around(`"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000B\f\r\u000E\u000F\u0010\u0011\u0012`+
		`\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001A\u001B\u001C\u001D\u001E\u001F \"\\/<>&'`+
		"\u007f\u0080\u2028\u2029\u00e4\u20ac\ufeff\uffff"+`\uD83D\uDE00"`), "", of(text))
	odd, err := encodeInstance(of(json.RawMessage(`"\u00e4\/\ud800\u0022\u0020\u001f\u005C"`)), "")
	require.NoError(t, err)
	assert.Equal(t, around(`"`+"\u00e4"+`\/\uD800\u0022 \u001F\u005C"`), string(odd))
}

// Text is read or refused as in Java, with the exceptions that are listed.
func TestReading(t *testing.T) {
	for text, want := range map[string]Instance[any]{
		`{}`:                                             {},
		`{"name":"n"}`:                                   {Name: "n"},
		`{"NAME":"n","id":"i"}`:                          {ID: "i"},
		`{"name":"n","name":"m","id":"i","x":1}`:         {Name: "m", ID: "i"},
		`{"enabled":true}`:                               {},
		`{"enabled":false}`:                              {Disabled: true},
		`{"serviceType":null,"uriSpec":{}}`:              {},
		`{"payload":{"k":1}}`:                            {Payload: map[string]any{"k": 1.0}},
		`{"payload":{"@class":"no.such","k":1}}`:         {Payload: map[string]any{"k": 1.0}},
		`{"payload":5,"registrationTimeUTC":-7}`:         {Payload: 5.0, RegistrationTime: time.UnixMilli(-7).UTC()},
		`{"port":0,"sslPort":-1}`:                        {SSLPort: -1},
		`{"port":2147483647,"sslPort":-2147483648}`:      {Port: math.MaxInt32, SSLPort: math.MinInt32},
		`{"uriSpec":{"parts":[{"value":"a{b}"}]}}`:       {URISpec: "a{[}b{]}"},
		`{"uriSpec":{"parts":[{"variable":true},null]}}`: {},
	} {
		got, err := decodeInstance[any]([]byte(text), 1)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "null", "[]", "{", `"x"`, "\x00", `{"name":5}`, `{"port":"80"}`, `{"port":1.7}`, `{"port":2147483648}`,
		`{"port":-2147483649}`, `{"serviceType":"dynamic"}`, `{"serviceType":"FOO"}`, `{"serviceType":1}`, `{"enabled":"x"}`,
		`{"uriSpec":{"parts":[{"value":"{a","variable":true}]}}`, `{"uriSpec":5}`, `{"name":"n"} x`,
	} {
		_, err := decodeInstance[any]([]byte(text), 1)
		require.ErrorIs(t, err, ErrCorrupt, text)
	}
	_, err := decodeInstance[int]([]byte(around(`"text"`)), 1)
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestWritingRefused(t *testing.T) {
	good := of[any](nil)
	good.Port, good.SSLPort = 0, 65535
	_, err := encodeInstance(good, "")
	require.NoError(t, err)
	for _, change := range []func(*Instance[any]){
		func(i *Instance[any]) { i.Name = "" },
		func(i *Instance[any]) { i.Name = "a/b" },
		func(i *Instance[any]) { i.ID = ".." },
		func(i *Instance[any]) { i.ID = "\x00" },
		func(i *Instance[any]) { i.Address = "\xff" },
		func(i *Instance[any]) { i.Port = -1 },
		func(i *Instance[any]) { i.SSLPort = 65536 },
		func(i *Instance[any]) { i.Type = 4 },
		func(i *Instance[any]) { i.URISpec = "{scheme" },
		func(i *Instance[any]) { i.URISpec = "a}" },
		func(i *Instance[any]) { i.URISpec = "{{a}}" },
		func(i *Instance[any]) { i.Payload = make(chan int) },
		func(i *Instance[any]) { i.Payload = json.RawMessage("{") },
	} {
		i := good
		change(&i)
		_, err := encodeInstance(i, "")
		assert.ErrorIs(t, err, ErrInvalidInstance, "%+v", i)
	}
}

// URIs are taken apart and built as in Curator's UriSpec.
func TestURISpec(t *testing.T) {
	for spec, want := range map[URISpec][]part{
		"":          {},
		"{}":        {},
		"{a}":       {{"a", true}},
		"a{b}c":     {{"a", false}, {"b", true}, {"c", false}},
		"a{b}{c}d":  {{"a", false}, {"b", true}, {"c", true}, {"d", false}},
		"{ b }":     {{"b", true}},
		"{ }":       {{"", true}},
		"[x]":       {{"[x]", false}},
		"{\tb\x01}": {{"b", true}},
	} {
		parts, err := spec.splitParts()
		require.NoError(t, err)
		assert.Equal(t, want, parts, spec)
	}
	const all = "{scheme} {name} {id} {address} {port} {ssl-port} {registration-time-utc} {service-type} {[} {]} {unknown}"
	i := Instance[any]{Name: "n", ID: "i", SSLPort: 443, RegistrationTime: time.UnixMilli(7), Type: DynamicSequential,
		URISpec: all}
	assert.Equal(t, "https n i   443 7 dynamic_sequential { } ", i.URI(nil))
	i = Instance[any]{Name: "n", ID: "i", Address: "ad", Port: 80, RegistrationTime: time.UnixMilli(7), Type: Static,
		URISpec: all}
	assert.Equal(t, "http n i ad 80  7 static { } ", i.URI(nil))
	assert.Equal(t, "http n i ad 9  7 static { } u", i.URI(map[string]string{"port": "9", "unknown": "u"}))
	assert.Empty(t, Instance[any]{URISpec: "{x"}.URI(nil))
}

// Any data are either read or refused, and an instance that was read is written so that it reads as the same.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		goldenFull, goldenDisabled, goldenNulls, around(`{"@class":"x","k":[1]}`), around(`["a",["b"]]`), around(`[]`),
		around(`"\ud83d\ude00\u001f"`), `{}`, `null`, `{"uriSpec":{"parts":[{"value":"a{b"}]}}`, "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := decodeInstance[json.RawMessage](data, 1)
		if _, other := decodeInstance[any](data, 1); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorIs(t, other, ErrCorrupt)
			return
		}
		_, _ = decodeInstance[info](data, 1)
		_, _ = decodeInstance[[]string](data, 1)
		text, err := encodeInstance(raw, "")
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidInstance)
			return
		}
		again, err := decodeInstance[json.RawMessage](text, 1)
		require.NoError(t, err)
		twice, err := encodeInstance(again, "")
		require.NoError(t, err)
		require.Equal(t, string(text), string(twice))
		raw.Payload, again.Payload = nil, nil
		require.Equal(t, raw, again)
		_ = raw.URI(nil)
	})
}

// An IPv6 address is in brackets at the host's place in a URI.
func TestURIOfAnIPv6Instance(t *testing.T) {
	for spec, want := range map[URISpec]string{
		"{scheme}://{address}:{port}/": "http://[::1]:80/",
		"//{address}/x":                "//[::1]/x",
		"//me@{address}/x":             "//me@[::1]/x",
		"{address}:{port}":             "[::1]:80",
		"{address}":                    "::1",
		"http://[{address}]:{port}/":   "http://[::1]:80/",
		"http://host/?at={address}":    "http://host/?at=::1",
	} {
		i := Instance[any]{Address: "::1", Port: 80, URISpec: spec}
		require.Equal(t, want, i.URI(nil))
		i.Address = "ad"
		require.Equal(t, want, i.URI(map[string]string{"address": "::1"}))
	}
	const spec = "{scheme}://{address}:{port}/"
	for address, want := range map[string]string{
		"[::1]": "http://[::1]:80/", "fe80::1%eth0": "http://[fe80::1%25eth0]:80/", "10.0.0.7": "http://10.0.0.7:80/",
		"host": "http://host:80/", "": "http://:80/",
	} {
		require.Equal(t, want, Instance[any]{Address: address, Port: 80, URISpec: spec}.URI(nil))
	}
}
