package zkcontainer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/zkcontainer"
)

// role makes the test program do something other than tests, in a process that a test may kill.
const role = "ZKCONTAINER_TEST_ROLE"

func TestMain(m *testing.M) {
	if do := roles[os.Getenv(role)]; do != nil {
		do()
		return
	}
	if slices.Contains(strings.Split(os.Getenv("CURATOR_TEST_WITHOUT"), ","), "docker") {
		fmt.Println("figure: LEFT OUT: all tests on containers, since CURATOR_TEST_WITHOUT says docker")
		return
	}
	log.SetDefault(log.NewNoopLogger()) // a dozen lines per container
	goleak.VerifyTestMain(m)
}

// roles are the other roles of this program.
var roles = map[string]func(){
	// die starts a server and an ensemble, reports that, and waits to be killed.
	"die": func() {
		ctx := context.Background()
		_, err := zkcontainer.Run(ctx)
		fatal(err)
		_, err = zkcontainer.RunEnsemble(ctx, 1)
		fatal(err)
		fmt.Println("up", zkcontainer.Self(), zkcontainer.Watchdog())
		select {}
	},
	// ask tries to start a server, and prints the result.
	"ask": func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		server, err := zkcontainer.Run(ctx)
		fmt.Println(server == nil, errors.Is(err, zkcontainer.ErrNoDocker),
			errors.Is(err, context.DeadlineExceeded), time.Since(began).Milliseconds())
		fmt.Println(err)
		fatal(testcontainers.TerminateContainer(server))
	},
}

func fatal(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
