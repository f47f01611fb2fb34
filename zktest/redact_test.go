package zktest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing that prints a configuration, or a value made from it, prints a password.
func TestPasswordsAreNotPrinted(t *testing.T) {
	users := map[string]string{"alice": "hush-1"}
	cfg := Config{SASLUsers: users, SuperDigest: "super:hush-2", EnsembleConfig: "server.1=a"}
	srv := RunT(t, cfg)
	ensemble := RunEnsembleT(t, 3, cfg)
	var out bytes.Buffer
	for _, v := range []any{
		cfg, &cfg, struct{ Config }{cfg}, []Config{cfg}, map[string]Config{"a": cfg},
		srv, ensemble, struct{ s *Server }{srv}, Config{SuperDigest: "hush"},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10v"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("careless", "value", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("careless", "value", v)
	}
	said := strings.ToLower(out.String())
	assert.NotContains(t, said, "hush")
	assert.NotContains(t, said, hex.EncodeToString([]byte("hush")))
	assert.Contains(t, said, "alice")
	assert.Contains(t, fmt.Sprintf("%+v", cfg), "EnsembleConfig:server.1=a", "everything else is there")
	assert.Equal(t, "hush-1", cfg.SASLUsers["alice"], "and the configuration is as it was")
	require.Equal(t, "{zktest server "+srv.Addr()+"}", fmt.Sprint(srv))
}
