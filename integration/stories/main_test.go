package stories

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/kit"
)

func TestMain(m *testing.M) {
	kit.Hold()
	log.SetDefault(log.NewNoopLogger()) // a dozen lines per container
	goleak.VerifyTestMain(m)
}

func withoutDocker() bool {
	return slices.Contains(strings.Split(os.Getenv("CURATOR_TEST_WITHOUT"), ","), "docker")
}
