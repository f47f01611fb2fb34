package zkcontainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go/log"
)

func isNotFound(err error) bool { return errdefs.IsNotFound(err) }

// Sweep removes the containers and networks that dead processes left behind with this package, logs that in
// testcontainers' log, and returns their number. Containers of processes that cannot be looked for from here (of
// another machine on the same daemon, of another container, or anywhere but on Linux) are removed when they are older
// than two hours. The first use of this package in a process does it by itself.
func Sweep(ctx context.Context) (removed int, err error) {
	docker, err := newClient(ctx)
	if err != nil {
		return 0, err
	}
	defer docker.Close()
	filter := make(client.Filters).Add("label", OwnerLabel)
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return 0, fmt.Errorf("zkcontainer: sweep: %w", err)
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return 0, fmt.Errorf("zkcontainer: sweep: %w", err)
	}
	var errs []error
	remove := func(kind, id, value string, made time.Time, do func() error) {
		o, err := parseOwner(value)
		if err != nil || !o.gone(made) {
			return
		}
		if err := do(); err != nil {
			// Another process may be sweeping too.
			if !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
				errs = append(errs, fmt.Errorf("zkcontainer: sweep: %s %.12s: %w", kind, id, err))
			}
			return
		}
		removed++
		log.Printf("zkcontainer: removed %s %.12s, left behind by process %d", kind, id, o.pid)
	}
	for _, c := range containers.Items {
		remove("container", c.ID, c.Labels[OwnerLabel], time.Unix(c.Created, 0), func() error {
			_, err := docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true,
				RemoveVolumes: true})
			return err
		})
	}
	for _, n := range networks.Items {
		remove("network", n.ID, n.Labels[OwnerLabel], n.Created, func() error {
			_, err := docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			return err
		})
	}
	return removed, errors.Join(errs...)
}
