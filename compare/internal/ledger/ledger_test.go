package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	w, err := Append(path)
	require.NoError(t, err)
	r, err := Open(path)
	require.NoError(t, err)
	lines, err := r.More()
	require.NoError(t, err)
	assert.Empty(t, lines)

	first := Line{5, "c1", 1, Begin, 7, "a note\nwith \"two\" lines"}
	require.NoError(t, w.Write(first))
	lines, err = r.More()
	require.NoError(t, err)
	assert.Equal(t, []Line{first}, lines)

	second := Line{At: time.Hour, Who: "c2", Event: Want}
	require.NoError(t, w.Write(second))
	require.NoError(t, w.Write(first))
	lines, err = r.More()
	require.NoError(t, err)
	assert.Equal(t, []Line{second, first}, lines)
	require.NoError(t, w.Close())
	require.NoError(t, r.Close())
}

func TestHalfALineIsReadLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	file, err := os.Create(path)
	require.NoError(t, err)
	r, err := Open(path)
	require.NoError(t, err)
	_, err = file.WriteString("12 c1 0 wa")
	require.NoError(t, err)
	lines, err := r.More()
	require.NoError(t, err)
	assert.Empty(t, lines)
	_, err = file.WriteString("nt 0 \"\"\n")
	require.NoError(t, err)
	lines, err = r.More()
	require.NoError(t, err)
	assert.Equal(t, []Line{{At: 12, Who: "c1", Event: Want}}, lines)
	require.NoError(t, r.Close())
	require.NoError(t, file.Close())
}

func TestWhatIsNoLine(t *testing.T) {
	for _, text := range []string{"", "x", "1 c1 0 want 0", "a c1 0 want 0 \"\"", "1 c1 b want 0 \"\"", "1 c1 0 want c \"\"",
		"1 c1 0 want 0 note"} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, "is not a line of a ledger", text)
	}
}

func TestTheClockGoesOn(t *testing.T) {
	before := Now()
	assert.Positive(t, before)
	assert.GreaterOrEqual(t, Now(), before)
}
