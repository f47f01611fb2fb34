package framework

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// EnsembleConfig is what the members of an ensemble have agreed on about themselves.
type EnsembleConfig struct {
	// Version identifies the configuration, for [ReconfigBuilder.FromConfig].
	Version int64
	// Members are in the order of their ids. None: a standalone server.
	Members []EnsembleMember
	// Data is the configuration as the server keeps it: a line per member, weights and groups, if any, and the version.
	Data []byte
}

// EnsembleMember is a line "server.ID=…" of a configuration.
type EnsembleMember struct {
	ID int64
	// Host is how the other members reach it, without the ports; the first address, if it has several.
	Host string
	// Observer says that it has no vote; else it is a participant. Clients use it all the same.
	Observer bool
	// ClientAddress is where it serves clients, as host:port: Host for a wildcard. Empty if the line does not say.
	ClientAddress string
	// Spec is what stands behind the "=".
	Spec string
}

// ClientAddresses returns where clients can connect, observers included, sorted, without repetition.
func (c EnsembleConfig) ClientAddresses() []string {
	var addresses []string
	for _, m := range c.Members {
		if m.ClientAddress != "" {
			addresses = append(addresses, m.ClientAddress)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// parseEnsembleConfig reads what it understands, as members do with lines of later versions.
func parseEnsembleConfig(data []byte) EnsembleConfig {
	c := EnsembleConfig{Data: data}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "version":
			c.Version, _ = strconv.ParseInt(value, 16, 64)
		case strings.HasPrefix(key, "server."):
			if id, err := strconv.ParseInt(key[len("server."):], 10, 64); err == nil {
				c.Members = append(c.Members, parseMember(id, value))
			}
		}
	}
	slices.SortFunc(c.Members, func(a, b EnsembleMember) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	return c
}

// parseMember reads "host:port:port[:role][|host:port:port[:role]]…[;[address:]port]".
func parseMember(id int64, spec string) EnsembleMember {
	m := EnsembleMember{ID: id, Spec: spec}
	peers, client, _ := strings.Cut(spec, ";")
	first, _, _ := strings.Cut(peers, "|")
	if end := strings.IndexByte(first, ']'); strings.HasPrefix(first, "[") && end > 0 {
		m.Host = first[1:end]
	} else {
		m.Host, _, _ = strings.Cut(first, ":")
	}
	m.Observer = strings.HasSuffix(strings.ToLower(peers), ":observer")

	host, port := "", strings.TrimSpace(client)
	if i := strings.LastIndexByte(port, ':'); i >= 0 {
		host, port = strings.Trim(port[:i], "[]"), port[i+1:]
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = m.Host
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 && host != "" {
		m.ClientAddress = net.JoinHostPort(strings.ToLower(host), port)
	}
	return m
}

// ConfigResult is what GetConfig and Reconfig return in the background.
type ConfigResult struct {
	Config EnsembleConfig
	Stat   Stat
	// Watch is set when one was asked for.
	Watch *Watch
}

// GetConfigBuilder reads the ensemble's configuration. It is a value: each method returns a changed copy.
type GetConfigBuilder struct {
	c        *Client
	stat     *Stat
	watching watching
}

// GetConfig begins to read the ensemble's configuration, which is the same for every namespace and chroot. Corresponds to Curator's getConfig.
func (c *Client) GetConfig() GetConfigBuilder { return GetConfigBuilder{c: c} }

// StoringStatIn has the Stat of the node with the configuration written to stat when the operation succeeds.
func (b GetConfigBuilder) StoringStatIn(stat *Stat) GetConfigBuilder { b.stat = stat; return b }

// WithWatch has the terminal return a watch for the next change. Its event's path is /zookeeper/config.
func (b GetConfigBuilder) WithWatch() WatchedGetConfig {
	b.watching = watching{wanted: true}
	return WatchedGetConfig{b}
}

// ForEnsemble returns the configuration that the connected member knows. A standalone server has one without members.
func (b GetConfigBuilder) ForEnsemble(ctx context.Context) (EnsembleConfig, error) {
	r, err := foreground(ctx, b.c, b.operation())
	return r.Config, err
}

// InBackground makes the terminal return at once.
func (b GetConfigBuilder) InBackground() GetConfigBackground { return GetConfigBackground{b} }

// WatchedGetConfig is a GetConfigBuilder with a watch.
type WatchedGetConfig struct{ b GetConfigBuilder }

// ForEnsemble returns the configuration and a watch; neither if there is an error.
func (b WatchedGetConfig) ForEnsemble(ctx context.Context) (EnsembleConfig, *Watch, error) {
	r, err := foreground(ctx, b.b.c, b.b.operation())
	return r.Config, r.Watch, err
}

// InBackground makes the terminal return at once.
func (b WatchedGetConfig) InBackground() GetConfigBackground { return GetConfigBackground(b) }

// GetConfigBackground is a GetConfigBuilder whose terminal does not wait.
type GetConfigBackground struct{ b GetConfigBuilder }

// ForEnsemble queues the request.
func (b GetConfigBackground) ForEnsemble(ctx context.Context) *Pending[ConfigResult] {
	return background(ctx, b.b.c, b.b.operation())
}

func (b GetConfigBuilder) operation() *operation[ConfigResult] {
	top := &Client{}
	if !b.c.none() {
		top = &Client{core: b.c.core, view: view{epoch: b.c.view.epoch}}
	}
	w := b.watching.start(top, wire.Data, configPath)
	return &operation[ConfigResult]{
		name: "getConfig", undo: w.disarm,
		call: func(e *epoch) *wire.Call {
			call := dataCall(configPath)
			call.Watch = w.arm(e)
			return call
		},
		read: readConfig(b.stat, w),
	}
}

func readConfig(stat *Stat, w *Watch) func(*epoch, []byte) (ConfigResult, error) {
	return func(_ *epoch, body []byte) (r ConfigResult, err error) {
		var res jute.GetDataResponse
		if err := decode(body, &res); err != nil {
			return r, err
		}
		store(stat, Stat(res.Stat))
		return ConfigResult{parseEnsembleConfig(res.Data), Stat(res.Stat), w.result()}, nil
	}
}

// ReconfigBuilder changes the members of the ensemble. It is a value: each method returns a changed copy.
type ReconfigBuilder struct {
	c                         *Client
	joining, leaving, members []string
	version                   int64
	stat                      *Stat
}

// Reconfig begins to change the members of the ensemble: some join or leave (Joining, Leaving), or all are named (WithNewMembers). The servers must run with
// reconfigEnabled=true, and the client needs PermWrite on /zookeeper/config, which by default only the super user has. Corresponds to Curator's reconfig.
func (c *Client) Reconfig() ReconfigBuilder { return ReconfigBuilder{c: c, version: -1} }

// Joining adds members, or changes those that have the id already: "server.4=host:2888:3888:participant;2181". An observer is one of the role "observer".
func (b ReconfigBuilder) Joining(servers ...string) ReconfigBuilder {
	b.joining = slices.Concat(b.joining, servers)
	return b
}

// Leaving removes members by their ids: "4".
func (b ReconfigBuilder) Leaving(ids ...string) ReconfigBuilder {
	b.leaving = slices.Concat(b.leaving, ids)
	return b
}

// WithNewMembers names all the members, in the form of Joining. It excludes Joining and Leaving.
func (b ReconfigBuilder) WithNewMembers(servers ...string) ReconfigBuilder {
	b.members = slices.Concat(b.members, servers)
	return b
}

// FromConfig has the operation fail with ErrBadVersion unless the configuration has this version (EnsembleConfig.Version). Default -1: any.
func (b ReconfigBuilder) FromConfig(version int64) ReconfigBuilder { b.version = version; return b }

// StoringStatIn has the Stat of the node with the configuration written to stat when the operation succeeds.
func (b ReconfigBuilder) StoringStatIn(stat *Stat) ReconfigBuilder { b.stat = stat; return b }

// ForEnsemble changes the members and returns the new configuration. Errors: ErrReconfigDisabled, ErrNoAuth, ErrBadVersion, ErrReconfigInProgress,
// ErrNewConfigNoQuorum, ErrBadArguments, ErrUnimplemented (a standalone server), and those of every operation.
//
// It is repeated as the retry policy says when it was certainly not executed. After an unknown outcome it is not: ask GetConfig.
func (b ReconfigBuilder) ForEnsemble(ctx context.Context) (EnsembleConfig, error) {
	r, err := foreground(ctx, b.c, b.operation())
	return r.Config, err
}

// InBackground makes the terminal return at once.
func (b ReconfigBuilder) InBackground() ReconfigBackground { return ReconfigBackground{b} }

// ReconfigBackground is a ReconfigBuilder whose terminal does not wait.
type ReconfigBackground struct{ b ReconfigBuilder }

// ForEnsemble queues the request.
func (b ReconfigBackground) ForEnsemble(ctx context.Context) *Pending[ConfigResult] {
	return background(ctx, b.b.c, b.b.operation())
}

func (b ReconfigBuilder) operation() *operation[ConfigResult] {
	return &operation[ConfigResult]{
		name: "reconfig", fault: b.fault(), write: true, once: true,
		call: func(*epoch) *wire.Call {
			return &wire.Call{Op: jute.OpReconfig, Body: jute.Marshal(&reconfigRequest{b.joining, b.leaving, b.members, b.version})}
		},
		read: readConfig(b.stat, nil),
	}
}

func (b ReconfigBuilder) fault() error {
	switch {
	case len(b.members) > 0 && len(b.joining)+len(b.leaving) > 0:
		return badArguments("WithNewMembers names all the members: Joining and Leaving have no place beside it")
	case len(b.members)+len(b.joining)+len(b.leaving) == 0:
		return badArguments("Reconfig needs Joining, Leaving or WithNewMembers")
	}
	for _, s := range slices.Concat(b.joining, b.members) {
		if key, spec, ok := strings.Cut(s, "="); !ok || !strings.HasPrefix(key, "server.") || spec == "" || strings.ContainsAny(s, ",\n") {
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

// reconfigRequest tells the server by null which of the two forms is meant.
type reconfigRequest struct {
	joining, leaving, members []string
	version                   int64
}

func (r *reconfigRequest) Encode(e *jute.Encoder) {
	nullable := func(list []string, separator string) {
		if len(list) == 0 {
			e.Int(-1)
			return
		}
		e.String(strings.Join(list, separator))
	}
	nullable(r.joining, ",")
	nullable(r.leaving, ",")
	nullable(r.members, "\n")
	e.Long(r.version)
}
