package framework

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The node of a lost hold stays for the grace only while the session may still exist and the holder may still be at work.
func TestGrace(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(srv *zktest.Server, h *Hold)
		grace time.Duration
	}{
		"valid":        {func(*zktest.Server, *Hold) {}, 0},
		"released":     {func(_ *zktest.Server, h *Hold) { h.End(nil) }, 0},
		"revoked":      {func(_ *zktest.Server, h *Hold) { h.End(errors.New("revoked")) }, 3 * time.Second},
		"suspended":    {func(srv *zktest.Server, _ *Hold) { srv.Cut(0) }, 3 * time.Second},
		"deleted":      {func(srv *zktest.Server, _ *Hold) { assert.NoError(t, srv.Delete("/a")) }, 0},
		"session lost": {func(srv *zktest.Server, h *Hold) { srv.Expire(h.e.wire.ID()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				s := connected(t, c)
				h := hold(t, s, "/a", HoldOptions{})
				test.end(srv, h)
				time.Sleep(time.Second)
				assert.Equal(t, name == "valid", h.Valid())
				assert.Equal(t, test.grace, h.Grace())
				assert.Equal(t, name == "session lost", s.Ended()())
			}, WithFenceGrace(3*time.Second))
		})
	}
}

func TestPlaceIsTheSameForAllViews(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ns := c.UsingNamespace("ns")
		assert.Equal(t, c.Place("/ns/a"), ns.Place("/a"))
		assert.NotEqual(t, c.Place("/a"), ns.Place("/a"))
		assert.NotEqual(t, dial(t, srv).Place("/a"), c.Place("/a"))
		assert.NotEqual(t, c.Place("not a path"), c.Place("nor this"))
	})
}

func TestWhoReadsItsOwnNodes(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		assert.True(t, c.ReadsItsOwn("/a"))
		assert.False(t, c.ReadsItsOwn("not a path"))
		for want, acls := range map[bool][][]ACL{
			true:  {CreatorACL(), {{PermWrite, "world", "anyone"}, {PermRead, "auth", ""}}},
			false: {{{PermAll, "digest", "alice:x"}}, {{PermAll &^ PermRead, "world", "anyone"}}},
		} {
			for _, acl := range acls {
				c := dial(t, srv, WithDefaultACL(acl...))
				assert.Equal(t, want, c.ReadsItsOwn("/a"), "%v", acl)
				assert.False(t, c.AllMayRead("/a"), "%v", acl)
			}
		}
		assert.True(t, c.AllMayRead("/a"))
		assert.False(t, c.AllMayRead("not a path"))
	})
}

func TestDataOfOtherContenders(t *testing.T) {
	largest, tooLarge := make([]byte, ContenderDataLimit), make([]byte, ContenderDataLimit+1)
	bubble(t, func(t *testing.T, srv *zktest.Server, plain *Client) {
		packing := dial(t, srv, WithCompression())
		for name, test := range map[string]struct {
			client     *Client
			data, want []byte
			errs       []error
		}{
			"small":                 {plain, []byte("x"), []byte("x"), nil},
			"compressed, unchanged": {plain, bomb(t, 1), bomb(t, 1), nil},
			"largest":               {plain, largest, largest, nil},
			"too large":             {plain, tooLarge, nil, []error{ErrDataTooLarge}},
			"compressed":            {packing, bomb(t, ContenderDataLimit), largest, nil},
			"not compressed":        {packing, []byte("x"), []byte("x"), nil},
			"too large when decompressed": {packing, bomb(t, ContenderDataLimit+1), nil,
				[]error{ErrDataTooLarge, ErrDecompressedTooLarge}},
		} {
			got, err := test.client.Unpacked("/a", test.data)
			assert.True(t, bytes.Equal(test.want, got), name)
			assert.Equal(t, test.want == nil, got == nil, name)
			if test.errs == nil {
				require.NoError(t, err, name)
			}
			for _, is := range test.errs {
				assert.ErrorIs(t, err, is, name)
			}
		}
		got, err := packing.UnpackedUpTo("/a", []byte("x"), 1)
		assert.ErrorIs(t, err, ErrDecompress)
		assert.Equal(t, "x", string(got))
	})
}
