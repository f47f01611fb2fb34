package framework

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ConfigResult is what GetConfig and Reconfig return in the background.
type ConfigResult struct {
	Config EnsembleConfig
	Stat   Stat
	// Watch is the watch if one was asked for, otherwise nil.
	Watch *Watch
}

// GetConfigBuilder reads the ensemble's configuration. It is a value: each method returns a changed copy.
type GetConfigBuilder struct {
	c        *Client
	stat     *Stat
	watching watching
}

// GetConfig begins to read the ensemble's configuration, which is the same for every namespace and chroot.
// Corresponds to Curator's getConfig.
func (c *Client) GetConfig() GetConfigBuilder { return GetConfigBuilder{c: c} }

// StoringStatIn makes the operation write the Stat of the configuration node to stat when it succeeds.
func (b GetConfigBuilder) StoringStatIn(stat *Stat) GetConfigBuilder { b.stat = stat; return b }

// WithWatch makes ForEnsemble also return a watch for the next change. Its event's path is /zookeeper/config.
func (b GetConfigBuilder) WithWatch() WatchedGetConfig {
	b.watching = watching{wanted: true}
	return WatchedGetConfig{b}
}

// ForEnsemble returns the configuration that the connected server knows. That of a standalone server has no
// members.
func (b GetConfigBuilder) ForEnsemble(ctx context.Context) (EnsembleConfig, error) {
	r, err := foreground(ctx, b.operation())
	return r.Config, err
}

// InBackground makes ForEnsemble return at once.
func (b GetConfigBuilder) InBackground() BackgroundForEnsemble[GetConfigBuilder, ConfigResult] {
	return BackgroundForEnsemble[GetConfigBuilder, ConfigResult]{b}
}

// WatchedGetConfig is a GetConfigBuilder with a watch.
type WatchedGetConfig struct{ b GetConfigBuilder }

// ForEnsemble returns the configuration and a watch; neither if there is an error.
func (b WatchedGetConfig) ForEnsemble(ctx context.Context) (EnsembleConfig, *Watch, error) {
	r, err := foreground(ctx, b.b.operation())
	return r.Config, r.Watch, err
}

func (b GetConfigBuilder) operation() *operation[ConfigResult] {
	top := &Client{}
	if !b.c.none() {
		top = newClient(b.c.core, view{epoch: b.c.view.epoch})
	}
	w, arming := b.watching.arming(top, wire.Data, configPath)
	return &operation[ConfigResult]{
		c: b.c, opKind: opKind{name: "getConfig"}, watch: arming, lengthy: true,
		procedure: functions[ConfigResult]{
			ask:  func(*epoch) *wire.Call { return readCall(jute.OpGetData, configPath) },
			read: configDecoder(b.stat, w),
		},
	}
}

func configDecoder(stat *Stat, w *Watch) func(int64, []byte) (ConfigResult, error) {
	return func(_ int64, body []byte) (r ConfigResult, err error) {
		var res jute.GetDataResponse
		if err := decode(body, res.Fields); err != nil {
			return r, err
		}
		if stat != nil {
			*stat = Stat(res.Stat)
		}
		return ConfigResult{parseEnsembleConfig(res.Data), Stat(res.Stat), w}, nil
	}
}

// ReconfigBuilder changes the members of the ensemble. It is a value: each method returns a changed copy.
type ReconfigBuilder struct {
	c                         *Client
	joining, leaving, members []string
	version                   int64
	stat                      *Stat
}

// Reconfig begins to change the members of the ensemble: some join or leave (Joining, Leaving), or all are
// named (WithNewMembers). The servers must run with reconfigEnabled=true, and the client needs PermWrite on
// /zookeeper/config, which by default only the super user has. Corresponds to Curator's reconfig.
func (c *Client) Reconfig() ReconfigBuilder { return ReconfigBuilder{c: c, version: -1} }

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

// WithNewMembers names all the members, in the form of Joining. It excludes the use of Joining and Leaving.
func (b ReconfigBuilder) WithNewMembers(servers ...string) ReconfigBuilder {
	b.members = slices.Concat(b.members, servers)
	return b
}

// FromConfig makes the operation fail with ErrBadVersion unless the configuration has this version
// (EnsembleConfig.Version). Default -1: any version.
func (b ReconfigBuilder) FromConfig(version int64) ReconfigBuilder { b.version = version; return b }

// StoringStatIn makes the operation write the Stat of the configuration node to stat when it succeeds.
func (b ReconfigBuilder) StoringStatIn(stat *Stat) ReconfigBuilder { b.stat = stat; return b }

// ForEnsemble changes the members and returns the new configuration. Errors: ErrReconfigDisabled,
// ErrNoAuth, ErrBadVersion, ErrReconfigInProgress, ErrNewConfigNoQuorum, ErrBadArguments, ErrUnimplemented
// (a standalone server), and the errors that every operation can return.
//
// The operation is repeated as the retry policy says if it was certainly not executed. After an unknown
// outcome it is not repeated: call GetConfig to see what became of it.
func (b ReconfigBuilder) ForEnsemble(ctx context.Context) (EnsembleConfig, error) {
	r, err := foreground(ctx, b.operation())
	return r.Config, err
}

// InBackground makes ForEnsemble return at once.
func (b ReconfigBuilder) InBackground() BackgroundForEnsemble[ReconfigBuilder, ConfigResult] {
	return BackgroundForEnsemble[ReconfigBuilder, ConfigResult]{b}
}

func (b ReconfigBuilder) operation() *operation[ConfigResult] {
	return &operation[ConfigResult]{
		c: b.c, opKind: opKind{name: "reconfig", write: true}, fault: b.fault(), doubt: doubtEnds,
		lengthy: true,
		procedure: functions[ConfigResult]{ask: func(*epoch) *wire.Call {
			return newCall(jute.OpReconfig, &reconfigRequest{b.joining, b.leaving, b.members, b.version})
		}, read: configDecoder(b.stat, nil)},
	}
}

func (b ReconfigBuilder) fault() error {
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

// reconfigRequest sends null for each list that is empty.
type reconfigRequest struct {
	joining, leaving, members []string
	version                   int64
}

func (r *reconfigRequest) Fields(c *jute.Coder) {
	nullable := func(list []string, separator string) {
		null, text := int32(-1), strings.Join(list, separator)
		if len(list) == 0 {
			c.Int(&null)
			return
		}
		c.String(&text)
	}
	nullable(r.joining, ",")
	nullable(r.leaving, ",")
	nullable(r.members, "\n")
	c.Long(&r.version)
}
