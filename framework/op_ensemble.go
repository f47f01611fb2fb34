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

// ErrInvalidEnsembleConfig means that a configuration cannot be an ensemble's own, so the client does not follow it. The
// message has the reason: more than 1000 members or 1 MiB, or a member with an invalid client address. A valid address
// is an IP address without a zone, or a name of letters, digits, "-", "_" and "." of at most 253 bytes, and a port from
// 1 to 65535.
var ErrInvalidEnsembleConfig = newSentinel("invalid ensemble configuration")

const (
	// maxMembers is the largest number of members. Most ensembles have a handful, some have dozens of observers.
	maxMembers = 1000
	// maxConfig is the largest size of a configuration in bytes. By default no more fit into a node.
	maxConfig = 1 << 20
)

// EnsembleConfig is the configuration of an ensemble that its members have agreed on.
type EnsembleConfig struct {
	// Version identifies the configuration, for the FromConfig of admin.Reconfig.
	Version int64
	// Members are in the order of their ids, at most 1000. A standalone server has none.
	Members []EnsembleMember
	// Data is the configuration's text: one line per member, weights and groups if any, and the version.
	Data []byte

	fault error // the result of Validate
}

// Validate returns nil if a client can follow the configuration (see [WithEnsembleTracking]), otherwise
// ErrInvalidEnsembleConfig with the first reason. A member without a client address is valid.
func (c EnsembleConfig) Validate() error { return c.fault }

// recordFault records a reason why the configuration is invalid. Only the first is kept.
func (c *EnsembleConfig) recordFault(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf("%w: %s", ErrInvalidEnsembleConfig, fmt.Sprintf(format, args...))
	}
}

// EnsembleMember is a line "server.ID=…" of a configuration.
type EnsembleMember struct {
	ID int64
	// Host is this member's host as the other members know it, without the ports; the first if there are several. It is
	// empty if it is neither a name nor an IP address.
	Host string
	// Observer means that the member has no vote. It serves clients all the same.
	Observer bool
	// ClientAddress is the member's address for clients, as host:port. Host stands in for a wildcard. It is empty if
	// the line has no client address, or an invalid one.
	ClientAddress string
	// Spec is the text after the "=".
	Spec string
}

// ClientAddresses returns the client addresses of all members, observers included, sorted and each once.
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

// parseEnsembleConfig decodes a configuration. Like members it ignores unknown lines, which later versions may have. It
// records the first reason why the configuration is invalid.
func parseEnsembleConfig(data []byte) EnsembleConfig {
	c := EnsembleConfig{Data: data}
	if len(data) > maxConfig {
		c.recordFault("it has %d bytes, and the limit is %d", len(data), maxConfig)
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
				c.addMember(id, value)
			}
		}
	}
	slices.SortFunc(c.Members, func(a, b EnsembleMember) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

func (c *EnsembleConfig) addMember(id int64, spec string) {
	if len(c.Members) == maxMembers {
		c.recordFault("it has more than %d members", maxMembers)
		return
	}
	m, why := parseMember(id, spec)
	if why != "" {
		c.recordFault("member %d: %s", id, why)
	}
	c.Members = append(c.Members, m)
}

// parseMember decodes "host:port:port[:role][|host:port:port[:role]]…[;[address:]port]". why is the reason why the
// client address after the ";" is invalid; "" if it is valid or missing.
func parseMember(id int64, spec string) (m EnsembleMember, why string) {
	m = EnsembleMember{ID: id, Spec: spec}
	peers, client, _ := strings.Cut(spec, ";")
	first, _, _ := strings.Cut(peers, "|")
	if end := strings.IndexByte(first, ']'); strings.HasPrefix(first, "[") && end > 0 {
		first = first[1:end]
	} else {
		first, _, _ = strings.Cut(first, ":")
	}
	if _, ok := parseHostName(first); ok {
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
			return m, fmt.Sprintf("%q is not an address", shortenText(client))
		}
	}
	if host == "" || isWildcardHost(host) {
		if host = first; isWildcardHost(host) {
			return m, fmt.Sprintf("%q is a wildcard, not an address to connect to", shortenText(host))
		}
	}
	name, ok := parseHostName(host)
	if !ok {
		return m, fmt.Sprintf("%q is not a host name", shortenText(host))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return m, fmt.Sprintf("%q is not a port from 1 to 65535", shortenText(port))
	}
	m.ClientAddress = net.JoinHostPort(name, strconv.FormatUint(n, 10))
	return m, ""
}

// isWildcardHost reports whether a host stands for all addresses of a machine. A client that connects to it
// reaches its own machine.
func isWildcardHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsUnspecified()
}

// parseHostName returns a host in its canonical form: an IP address as netip prints it, a name in lower case. ok is
// false for any other text, and for an address with a zone, because a zone is valid on one machine only.
func parseHostName(s string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, isForbiddenInHost) {
			return "", false
		}
	}
	return strings.ToLower(s), len(s) <= maxHostLength
}

// maxLabel is the largest length of a label, the part of a host name between two dots.
const maxLabel = 63

func isForbiddenInHost(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// GetConfig returns the ensemble's configuration as the connected server has it. It is the same in every namespace and
// chroot. A standalone server's configuration has no members. Package admin changes it. Corresponds to Curator's
// getConfig.
func (c *Client) GetConfig(ctx context.Context) (EnsembleConfig, error) {
	r, err := runForeground(ctx, c.readConfig(false))
	return r.config, err
}

// WatchConfig is [Client.GetConfig], but also returns a watch for the next change; nil if there is an error. The path of
// the watch's event is /zookeeper/config.
func (c *Client) WatchConfig(ctx context.Context) (EnsembleConfig, *Watch, error) {
	r, err := runForeground(ctx, c.readConfig(true))
	return r.config, r.watch, err
}

// configResult is the result of the operations on the ensemble's configuration.
type configResult struct {
	config EnsembleConfig
	watch  *Watch // nil without a watch
}

func (c *Client) readConfig(watched bool) *operation[configResult] {
	rootView := &Client{} // the watch's event must have the path without chroot and namespace
	if !c.isZeroValue() {
		rootView = newClient(c.core, clientView{epoch: c.view.epoch})
	}
	w, armer := watchOptions{wanted: watched}.newArmer(rootView, wire.Data, configPath)
	return &operation[configResult]{
		c: c, name: "getConfig", watch: armer, slowToDecode: true,
		procedure: functionProcedure[configResult]{
			makeRequest: func() *wire.Call { return readCall(jute.OpGetData, configPath) },
			decode:      configDecoder(w),
		},
	}
}

// configDecoder returns a decode function whose results have w.
func configDecoder(w *Watch) func(int64, []byte) (configResult, error) {
	return func(_ int64, body []byte) (r configResult, err error) {
		var res jute.GetDataResponse
		if err := decodeRecord(body, res.Fields); err != nil {
			return r, err
		}
		return configResult{parseEnsembleConfig(res.Data), w}, nil
	}
}

// Reconfigure sends the request of admin.Reconfig, which describes the lists and the errors, and returns the new
// configuration. Version -1 means any version. Without an entry in any list the error is ErrBadArguments. The request is
// repeated as the retry policy allows if it was certainly not executed. For package admin.
func (c *Client) Reconfigure(
	ctx context.Context, joining, leaving, members []string, version int64,
) (EnsembleConfig, error) {
	r, err := runForeground(ctx, c.reconfigure(&reconfigRequest{joining, leaving, members, version}))
	return r.config, err
}

func (c *Client) reconfigure(req *reconfigRequest) *operation[configResult] {
	o := &operation[configResult]{
		c: c, name: "reconfig", mutates: true, unknownPolicy: unknownGiveUp, slowToDecode: true,
		procedure: functionProcedure[configResult]{
			makeRequest: func() *wire.Call { return newCall(jute.OpReconfig, req) },
			decode:      configDecoder(nil),
		},
	}
	if len(slices.Concat(req.joining, req.leaving, req.members)) == 0 {
		o.argumentError = badArguments("a reconfiguration needs members that join or leave, or all of them")
	}
	return o
}

// reconfigRequest is the record of a reconfig request. An empty list is sent as null, because servers distinguish by the
// nulls whether members join and leave, or all members are given.
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
