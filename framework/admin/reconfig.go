// Package admin changes the members of an ensemble. Programs that only follow the ensemble need none of it: see
// [framework.WithEnsembleTracking] and [framework.Client.GetConfig].
package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/framework"
)

// ReconfigBuilder changes the members of the ensemble. It is a value: each method returns a changed copy.
type ReconfigBuilder struct {
	c                         *framework.Client
	joining, leaving, members []string
	version                   int64
}

// Reconfig begins to change the members of the ensemble: name the members that are added and removed (Joining, Leaving),
// or all members (WithNewMembers). The servers must run with reconfigEnabled=true, and the client needs PermWrite on
// /zookeeper/config, which by default only the super user has. Corresponds to Curator's reconfig.
func Reconfig(c *framework.Client) ReconfigBuilder { return ReconfigBuilder{c: c, version: -1} }

// Joining adds members, or changes existing members with the same id:
// "server.4=host:2888:3888:participant;2181". An observer has the role "observer".
func (b ReconfigBuilder) Joining(servers ...string) ReconfigBuilder {
	b.joining = slices.Concat(b.joining, servers)
	return b
}

// Leaving removes members by their ids: "4".
func (b ReconfigBuilder) Leaving(ids ...string) ReconfigBuilder {
	b.leaving = slices.Concat(b.leaving, ids)
	return b
}

// WithNewMembers names all the members, in the form of Joining. It cannot be combined with Joining and Leaving.
func (b ReconfigBuilder) WithNewMembers(servers ...string) ReconfigBuilder {
	b.members = slices.Concat(b.members, servers)
	return b
}

// FromConfig makes the operation fail with framework.ErrBadVersion unless the ensemble's present configuration has this
// version ([framework.EnsembleConfig].Version). Default -1: any version.
func (b ReconfigBuilder) FromConfig(version int64) ReconfigBuilder { b.version = version; return b }

// ForEnsemble changes the members and returns the new configuration. It blocks until the server has replied or
// ctx ends. Errors: framework.ErrReconfigDisabled, ErrNoAuth, ErrBadVersion, ErrReconfigInProgress,
// ErrNewConfigNoQuorum, ErrBadArguments, ErrUnimplemented (a standalone server), and the errors that every
// operation can return.
//
// If the operation was certainly not executed, the retry policy decides whether it is repeated. After an unknown outcome
// it is not repeated: [framework.Client.GetConfig] shows whether it was executed.
func (b ReconfigBuilder) ForEnsemble(ctx context.Context) (framework.EnsembleConfig, error) {
	if err := b.checkArguments(); err != nil && ctx != nil && !errors.Is(b.c.Err(), framework.ErrNoClient) {
		return framework.EnsembleConfig{}, &framework.OpError{Op: "reconfig", Err: err}
	}
	return b.c.Reconfigure(ctx, b.joining, b.leaving, b.members, b.version)
}

func (b ReconfigBuilder) checkArguments() error {
	switch {
	case len(b.members) > 0 && len(b.joining)+len(b.leaving) > 0:
		return badArguments("WithNewMembers names all members, so it cannot be combined with Joining or " +
			"Leaving")
	case len(b.members)+len(b.joining)+len(b.leaving) == 0:
		return badArguments("Reconfig needs Joining, Leaving or WithNewMembers")
	}
	for _, s := range slices.Concat(b.joining, b.members) {
		if key, spec, ok := strings.Cut(s, "="); !ok || !strings.HasPrefix(key, "server.") || spec == "" ||
			strings.ContainsAny(s, ",\n") {
			return badArguments(`%q is not a member; write "server.4=host:2888:3888:participant;2181"`, s)
		}
	}
	for _, id := range b.leaving {
		if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			return badArguments(`%q is not the id of a member; write "4"`, id)
		}
	}
	return nil
}

func badArguments(format string, args ...any) error {
	return fmt.Errorf("%w: %s", framework.ErrBadArguments, fmt.Sprintf(format, args...))
}
