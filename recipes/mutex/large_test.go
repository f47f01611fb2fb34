package mutex_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Too much data of one participant, packed or not, does not hide the other participants.
func TestParticipantsWithTooMuchData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		asks, evil := newClient(t, s, framework.WithCompression()), newClient(t, s)
		packed := func(size int) []byte {
			data, err := framework.Gzip{}.Compress(path, make([]byte, size))
			require.NoError(t, err)
			return data
		}
		for i, data := range [][]byte{
			[]byte("friend"),
			bytes.Repeat([]byte("x"), framework.ContenderDataLimit),
			bytes.Repeat([]byte("x"), framework.ContenderDataLimit+1),
			packed(framework.ContenderDataLimit),
			packed(framework.ContenderDataLimit + 1),
			packed(50 << 20),
			[]byte("another"),
		} {
			_, err := evil.Create().CreatingParentsIfNeeded().WithMode(framework.EphemeralSequential).
				ForPath(background, path+"/lock-", data)
			require.NoError(t, err, i)
		}
		m := mutex.New(asks, path)
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 7)
		for i, size := range []int{6, framework.ContenderDataLimit, -1, framework.ContenderDataLimit, -1, -1, 7} {
			assert.NotZero(t, line[i].SessionID, "the node was read")
			if size < 0 {
				assert.ErrorIs(t, line[i].DataErr, framework.ErrDataTooLarge)
				assert.Nil(t, line[i].Data)
				continue
			}
			require.NoError(t, line[i].DataErr)
			assert.Len(t, line[i].Data, size)
		}
		assert.ErrorIs(t, line[5].DataErr, framework.ErrDecompressedTooLarge)
		assert.NotErrorIs(t, line[2].DataErr, framework.ErrDecompress)
		holder, found, err := m.Holder(background)
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, "friend", string(holder.Data))
	})
}

// Many participants, each with as much data as one may have, are limited together.
func TestParticipantsWithTooMuchDataTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		asks := newClient(t, s)
		large := strings.Repeat("x", framework.ContenderDataLimit)
		const room = 16 << 20 / framework.ContenderDataLimit
		for range room + 10 {
			_, err := asks.Create().CreatingParentsIfNeeded().WithMode(framework.EphemeralSequential).
				ForPath(background, path+"/lock-", []byte(large))
			require.NoError(t, err)
		}
		_, err := asks.Create().WithMode(framework.EphemeralSequential).ForPath(background, path+"/lock-", nil)
		require.NoError(t, err)
		line, err := mutex.New(asks, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, room+11)
		for i, p := range line {
			switch {
			case i < room:
				require.NoError(t, p.DataErr)
				require.Len(t, p.Data, len(large))
			case i < room+10:
				require.ErrorIs(t, p.DataErr, framework.ErrDataTooLarge)
			default:
				require.NoError(t, p.DataErr)
			}
		}
	})
}
