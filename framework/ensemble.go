package framework

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ErrInvalidEnsembleConfig says that the ensemble's configuration is not what members write about themselves, so that no client follows it; the message
// says what is wrong: more than 1000 members or 1 MiB, or a member whose address for clients is none: neither an IP address without a zone nor a name of
// letters, digits, "-", "_" and ".", at most 253 bytes long, or a port that is not from 1 to 65535.
var ErrInvalidEnsembleConfig = named("invalid ensemble configuration")

const (
	// maxMembers is how many members a configuration can have; ensembles have a handful, and some dozens of observers.
	maxMembers = 1000
	// maxConfig is how large it can be, in bytes: larger ones do not fit into a node, by default.
	maxConfig = 1 << 20
)

// EnsembleConfig is what the members of an ensemble have agreed on about themselves.
type EnsembleConfig struct {
	// Version identifies the configuration, for [ReconfigBuilder.FromConfig].
	Version int64
	// Members are in the order of their ids, at most 1000. None: a standalone server.
	Members []EnsembleMember
	// Data is the configuration as the server keeps it: a line per member, weights and groups, if any, and the version.
	Data []byte

	fault error // see Validate
}

// Validate says why no client can follow the configuration, see [WithEnsembleTracking]: ErrInvalidEnsembleConfig with the first reason; nil if there is none.
// A member that names no address for clients is none.
func (c EnsembleConfig) Validate() error { return c.fault }

// wrong notes what is wrong; the first counts.
func (c *EnsembleConfig) wrong(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf("%w: %s", ErrInvalidEnsembleConfig, fmt.Sprintf(format, args...))
	}
}

// EnsembleMember is a line "server.ID=…" of a configuration.
type EnsembleMember struct {
	ID int64
	// Host is how the other members reach it, without the ports; the first address, if it has several. Empty if it is neither a name nor an IP address.
	Host string
	// Observer says that it has no vote; else it is a participant. Clients use it all the same.
	Observer bool
	// ClientAddress is where it serves clients, as host:port: Host for a wildcard. Empty if the line does not say, or nothing that can be an address.
	ClientAddress string
	// Spec is what stands behind the "=", as the node has it.
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

// parseEnsembleConfig reads what it understands, as members do with lines of later versions, and notes what cannot be right.
func parseEnsembleConfig(data []byte) EnsembleConfig {
	c := EnsembleConfig{Data: data}
	if len(data) > maxConfig {
		c.wrong("%d bytes; the most are %d", len(data), maxConfig)
		return c
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "version":
			c.Version, _ = strconv.ParseInt(value, 16, 64)
		case strings.HasPrefix(key, "server."):
			if id, err := strconv.ParseInt(key[len("server."):], 10, 64); err == nil {
				c.add(id, value)
			}
		}
	}
	slices.SortFunc(c.Members, func(a, b EnsembleMember) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

func (c *EnsembleConfig) add(id int64, spec string) {
	if len(c.Members) == maxMembers {
		c.wrong("more than %d members", maxMembers)
		return
	}
	m, why := parseMember(id, spec)
	if why != "" {
		c.wrong("member %d: %s", id, why)
	}
	c.Members = append(c.Members, m)
}

// parseMember reads "host:port:port[:role][|host:port:port[:role]]…[;[address:]port]", and says why the address for clients is none, if it gives one.
func parseMember(id int64, spec string) (m EnsembleMember, why string) {
	m = EnsembleMember{ID: id, Spec: spec}
	peers, client, _ := strings.Cut(spec, ";")
	first, _, _ := strings.Cut(peers, "|")
	if end := strings.IndexByte(first, ']'); strings.HasPrefix(first, "[") && end > 0 {
		first = first[1:end]
	} else {
		first, _, _ = strings.Cut(first, ":")
	}
	if _, ok := hostName(first); ok {
		m.Host = first
	}
	m.Observer = strings.HasSuffix(strings.ToLower(peers), ":observer")
	if client = strings.TrimSpace(client); client == "" {
		return m, ""
	}
	host, port := "", client
	if i := strings.LastIndexByte(client, ':'); i >= 0 {
		host, port = client[:i], client[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return m, fmt.Sprintf("%q is not an address", shortened(client))
		}
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.Unmap().IsUnspecified() {
		host = first
	}
	name, ok := hostName(host)
	if !ok {
		return m, fmt.Sprintf("%q is not a host", shortened(host))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return m, fmt.Sprintf("%q is not a port from 1 to 65535", shortened(port))
	}
	m.ClientAddress = net.JoinHostPort(name, strconv.FormatUint(n, 10))
	return m, ""
}

// hostName returns a host as it is connected to and compared: an IP address in its usual form, a name in lower case. ok is false for what is neither, an
// address with a zone included, which says something on one machine only.
func hostName(s string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInNames) {
			return "", false
		}
	}
	return strings.ToLower(s), len(s) <= maxHost
}

// maxLabel is the length of the longest parts of a host name.
const maxLabel = 63

func notInNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
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
func (b GetConfigBuilder) InBackground() BackgroundForEnsemble[GetConfigBuilder, ConfigResult] {
	return BackgroundForEnsemble[GetConfigBuilder, ConfigResult]{b}
}

func (b GetConfigBuilder) client() *Client { return b.c }

// WatchedGetConfig is a GetConfigBuilder with a watch.
type WatchedGetConfig struct{ b GetConfigBuilder }

// ForEnsemble returns the configuration and a watch; neither if there is an error.
func (b WatchedGetConfig) ForEnsemble(ctx context.Context) (EnsembleConfig, *Watch, error) {
	r, err := foreground(ctx, b.b.c, b.b.operation())
	return r.Config, r.Watch, err
}

// InBackground makes the terminal return at once.
func (b WatchedGetConfig) InBackground() BackgroundForEnsemble[GetConfigBuilder, ConfigResult] {
	return BackgroundForEnsemble[GetConfigBuilder, ConfigResult](b)
}

func (b GetConfigBuilder) operation() *operation[ConfigResult] {
	top := &Client{}
	if !b.c.none() {
		top = &Client{core: b.c.core, view: view{epoch: b.c.view.epoch}}
	}
	w := b.watching.start(top, wire.Data, configPath)
	return &operation[ConfigResult]{
		name: "getConfig", watch: w, lengthy: true,
		request: func(e *epoch) *wire.Call { return w.on(dataCall(configPath), e) },
		decode:  configDecoder(b.stat, w),
	}
}

func configDecoder(stat *Stat, w *Watch) func(int64, []byte) (ConfigResult, error) {
	return func(_ int64, body []byte) (r ConfigResult, err error) {
		var res jute.GetDataResponse
		if err := decode(body, &res); err != nil {
			return r, err
		}
		store(stat, Stat(res.Stat))
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
func (b ReconfigBuilder) InBackground() BackgroundForEnsemble[ReconfigBuilder, ConfigResult] {
	return BackgroundForEnsemble[ReconfigBuilder, ConfigResult]{b}
}

func (b ReconfigBuilder) client() *Client { return b.c }

func (b ReconfigBuilder) operation() *operation[ConfigResult] {
	return &operation[ConfigResult]{
		name: "reconfig", fault: b.fault(), write: true, doubt: doubtEnds, lengthy: true,
		request: func(*epoch) *wire.Call {
			return newCall(jute.OpReconfig, &reconfigRequest{b.joining, b.leaving, b.members, b.version})
		},
		decode: configDecoder(b.stat, nil),
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
