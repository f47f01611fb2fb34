package zkcontainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// ErrNoDocker means that no Docker daemon answers.
var ErrNoDocker = errors.New("zkcontainer: no Docker daemon answers: start one, as " +
	"integration/image/ensure-docker does on Debian, or let DOCKER_HOST say where it is")

const (
	ryukDisabled = "TESTCONTAINERS_RYUK_DISABLED"
	hostOverride = "TESTCONTAINERS_HOST_OVERRIDE"

	// answerTimeout bounds a request to the daemon that it answers from memory.
	answerTimeout = 10 * time.Second
	// pullTimeout bounds the pull of Ryuk, which has a few megabytes.
	pullTimeout = time.Minute
)

// preparing is a mutex that can be waited for under a context; prepared is set after the first prepare.
var (
	preparing = make(chan struct{}, 1)
	prepared  bool // guarded by preparing
)

// prepare checks, once for the process, that Docker is there, arranges for the clean-up when the process dies, and
// removes the containers that other processes left behind. It must come before any call of testcontainers, which
// reads its settings only once.
func prepare(ctx context.Context) error {
	select {
	case preparing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("zkcontainer: %w", context.Cause(ctx))
	}
	defer func() { <-preparing }()
	if prepared {
		return nil
	}
	if err := meet(ctx); err != nil {
		return err
	}
	if testcontainers.ReadConfig().RyukDisabled {
		if err := watch(); err != nil {
			log.Printf("zkcontainer: what this process leaves behind if it is killed will stay until this package "+
				"is used again: %v", err)
		}
	}
	if _, err := Sweep(ctx); err != nil {
		return err
	}
	prepared = true
	return nil
}

// meet finds the daemon and adapts the settings of testcontainers to it.
func meet(ctx context.Context) error {
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	defer docker.Close()
	err = answers(ctx, docker)
	switch {
	case err == nil:
		decideRyuk(ctx, docker)
		decideHost(ctx, docker)
		return nil
	case os.Getenv(client.EnvOverrideHost) != "":
		// testcontainers would try elsewhere, without a word.
		return fmt.Errorf("%w: DOCKER_HOST is %s: %w", ErrNoDocker, os.Getenv(client.EnvOverrideHost), err)
	}
	// It knows other places: rootless Docker, Docker Desktop, its own file of settings.
	other, otherErr := newClient(ctx)
	if otherErr != nil {
		return fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	return other.Close()
}

func answers(ctx context.Context, docker *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	return err
}

// newClient is for use after prepare.
func newClient(ctx context.Context) (*testcontainers.DockerClient, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	return docker, nil
}

// decideRyuk disables Ryuk where it cannot be had: testcontainers would fail on it.
func decideRyuk(ctx context.Context, docker *client.Client) {
	if value := os.Getenv(ryukDisabled); value != "" {
		if off, err := strconv.ParseBool(value); err == nil && off {
			os.Setenv(ryukDisabled, "true") // it takes 1 for no
		}
		return
	}
	//lint:ignore SA1019 there is no other way to learn its name
	image := testcontainers.ReaperDefaultImage
	if prefix := os.Getenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX"); prefix != "" {
		image = strings.TrimSuffix(prefix, "/") + "/" + image
	}
	if _, err := docker.ImageInspect(ctx, image); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	pull, err := docker.ImagePull(ctx, image, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
	}
	if err != nil {
		os.Setenv(ryukDisabled, "true")
		log.Printf("zkcontainer: goes on without Ryuk (%s=true), since it cannot be pulled: %v", ryukDisabled, err)
	}
}

// decideHost helps on a machine that has the file of a container and is none: the bridge is its own.
func decideHost(ctx context.Context, docker *client.Client) {
	if _, set := os.LookupEnv(hostOverride); set || !strings.HasPrefix(docker.DaemonHost(), "unix:") {
		return
	}
	if _, err := os.Stat("/.dockerenv"); err != nil {
		return
	}
	bridge, err := docker.NetworkInspect(ctx, testcontainers.Bridge, client.NetworkInspectOptions{})
	if err != nil {
		return
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	for _, config := range bridge.Network.IPAM.Config {
		gateway := config.Gateway
		if !gateway.IsValid() {
			gateway = config.Subnet.Masked().Addr().Next() // Docker's choice where it was not asked
		}
		for _, address := range addresses {
			if own, _, err := net.ParseCIDR(address.String()); err == nil && own.String() == gateway.String() {
				os.Setenv(hostOverride, "127.0.0.1")
				return
			}
		}
	}
}

// haveImage returns false only if the daemon replies that it has no such image.
func haveImage(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	docker, err := newClient(ctx)
	if err != nil {
		return true
	}
	defer docker.Close()
	_, err = docker.ImageInspect(ctx, name)
	return !isNotFound(err)
}
