package kit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSlack(t *testing.T) {
	t.Parallel()
	assert.Equal(t, time.Second, slack("", 2))
	assert.Equal(t, 1250*time.Millisecond, slack("0.50 0.20 0.10 1/123 4567\n", 2))
	assert.Equal(t, 6*time.Second, slack("10.00 0.20 0.10 12/123 4567\n", 2))
	assert.GreaterOrEqual(t, Slack(), time.Second)
}
