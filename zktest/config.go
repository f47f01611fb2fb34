package zktest

import (
	"log/slog"
	"time"
)

// Profile selects the behaviour of a ZooKeeper version where versions differ.
type Profile int

const (
	// V38 is ZooKeeper 3.6 to 3.8.3, the default: a connection has one watch mode per path, so that a
	// one-shot watch replaces a persistent one.
	V38 Profile = iota
	// V384 is 3.8.4 to 3.8.6, and older versions with the same fix, such as Debian's 3.8.0. It is like V38,
	// but a client without READ permission on a node gets no events of that node; its one-shot watch is
	// consumed all the same.
	V384
	// V39 is 3.9: a connection can have several watch modes on one path, events carry a zxid, and events are
	// dropped as in V384.
	V39
	// V35 is 3.5, which does not know addWatch, setWatches2, multiRead, whoAmI, getEphemerals and
	// getAllChildrenNumber. As for every unknown operation, the server closes the connection on these.
	V35
)

func (p Profile) String() string {
	switch p {
	case V38:
		return "3.8"
	case V384:
		return "3.8.4"
	case V39:
		return "3.9"
	case V35:
		return "3.5"
	}
	return "unknown"
}

func (p Profile) valid() bool         { return p >= V38 && p <= V35 }
func (p Profile) stackedModes() bool  { return p == V39 }
func (p Profile) filtersEvents() bool { return p == V384 || p == V39 }
func (p Profile) version() string {
	return map[Profile]string{V38: "3.8.0", V384: "3.8.6", V39: "3.9.3", V35: "3.5.10"}[p]
}

// Config is the configuration of a server. The zero value means the defaults.
type Config struct {
	// TickTime is the granularity of session expiry: a session expires at the first multiple of it strictly
	// after the last touch plus the session's timeout. Whole milliseconds. Default 2 s.
	TickTime time.Duration
	// MinSessionTimeout and MaxSessionTimeout limit the negotiated session timeouts. Default 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// MaxFrame is jute.maxbuffer: a longer frame closes the connection. Default 0xfffff bytes (1 MiB less
	// one).
	MaxFrame int
	// Listen is a TCP address to serve besides the in-memory network, e.g. "127.0.0.1:0". Default "": the
	// in-memory network only. An address that is not a loopback address is logged as a warning (":2181" is
	// all addresses of the machine), by slog.Default() if Logger is nil.
	Listen string
	// ReapInterval is the time between two searches for empty containers and expired TTL nodes, which are
	// deleted. Default 60 s.
	ReapInterval time.Duration
	// ExtendedTypes allows TTL nodes (zookeeper.extendedTypesEnabled). Default: refused with
	// [ErrUnimplemented].
	ExtendedTypes bool
	// EnforceQuota refuses writes beyond a hard quota with [ErrQuotaExceeded] (zookeeper.enforceQuota).
	// Default: quotas are only counted.
	EnforceQuota bool
	// Profile is the version to imitate. Default [V38].
	Profile Profile
	// EnsembleConfig is the data of /zookeeper/config. Default "", as on a standalone server; in an ensemble
	// a list of the members. It is only text: who votes does not depend on it.
	EnsembleConfig string
	// Reconfig allows reconfigurations of an ensemble (reconfigEnabled=true) to those who may write
	// /zookeeper/config: the super user ([Config.SuperDigest]), or whom he has given the right by an ACL. A
	// server that stands alone then answers with [ErrUnimplemented]. Default: refused with
	// [ErrReconfigDisabled]. See [NewEnsemble] for what a reconfiguration does. It excludes EnsembleConfig.
	Reconfig bool
	// RequireAuth makes clients authenticate with the digest scheme (enforce.auth.enabled): any other packet
	// before that is answered with an error, and the server closes the connection.
	RequireAuth bool
	// SASLUsers maps the users that can log in by SASL DIGEST-MD5 to their passwords, as the JAAS section
	// Server does. Default: the server offers no SASL login.
	SASLUsers map[string]string
	// RequireSASL makes clients log in as one of SASLUsers (sessionRequireClientSASLAuth): any other packet
	// before that is answered with an error, and the server closes the connection.
	RequireSASL bool
	// SuperDigest is the id of the super user, "super:" and the base64 of a SHA-1
	// (zookeeper.DigestAuthenticationProvider.superDigest). Default none.
	SuperDigest string
	// MaxClientConns is the most connections from one client address (maxClientCnxns); the server closes any
	// further connection at once. All clients of the in-memory network have the same address. Default 0: no
	// limit.
	MaxClientConns int
	// Pace is the shortest time between two replies or events of a connection. Default 0: replies and events
	// sent at one instant can arrive together. With any other value, however short, a client in virtual time
	// handles each before the next arrives.
	Pace time.Duration
	// Logger gets the log lines of the server. Default: nothing is logged, except a warning about Listen.
	Logger *slog.Logger
	alarm  *slog.Logger // never silent

	// The fields below are for ensembles.

	// SyncLimit is the number of ticks without a message after which a follower leaves its leader, and a
	// leader drops a follower. Default 5.
	SyncLimit int
	// ElectionTime is how long members without a leader take to elect a leader and to copy its state. Default
	// 400 ms.
	ElectionTime time.Duration
	// Lag is the time from a commit until a follower applies it: its reads are stale by this much. See
	// [Ensemble.SetLag]. Default 0.
	Lag time.Duration
	// PeerDelay is the time that a message between members takes. See [Ensemble.SetPeerDelay]. Default 0.
	PeerDelay time.Duration
	// ReadOnlyMode makes a member without a quorum serve reads to the clients that allow it
	// (readonlymode.enabled). Default: it refuses all.
	ReadOnlyMode bool
	// LocalSessions lets a member in ReadOnlyMode without a quorum also open new sessions for these clients
	// (localSessionsEnabled, which has no other effect here). Default: it answers their handshake with a
	// reply that has the code [ErrNotReadOnly]. With Profile [V35] it opens such sessions in any case.
	LocalSessions bool
}

func (c Config) withDefaults() (Config, error) {
	if c.TickTime == 0 {
		c.TickTime = 2 * time.Second
	}
	if c.MinSessionTimeout == 0 {
		c.MinSessionTimeout = 2 * c.TickTime
	}
	if c.MaxSessionTimeout == 0 {
		c.MaxSessionTimeout = 20 * c.TickTime
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 0xfffff
	}
	if c.ReapInterval == 0 {
		c.ReapInterval = time.Minute
	}
	if c.SyncLimit == 0 {
		c.SyncLimit = 5
	}
	if c.ElectionTime == 0 {
		c.ElectionTime = 400 * time.Millisecond
	}
	if c.alarm = c.Logger; c.Logger == nil {
		c.alarm, c.Logger = slog.Default(), slog.New(slog.DiscardHandler)
	}
	switch {
	case c.TickTime < time.Millisecond:
		return c, configError("TickTime %v is under 1 ms", c.TickTime)
	case c.MinSessionTimeout < time.Millisecond || c.MinSessionTimeout > c.MaxSessionTimeout:
		return c, configError("MinSessionTimeout %v must be between 1 ms and MaxSessionTimeout %v",
			c.MinSessionTimeout, c.MaxSessionTimeout)
	case c.MaxFrame < 64:
		return c, configError("MaxFrame %d leaves no room for a request", c.MaxFrame)
	case c.ReapInterval < time.Millisecond:
		return c, configError("ReapInterval %v is under 1 ms", c.ReapInterval)
	case c.MaxClientConns < 0 || c.SyncLimit < 0:
		return c, configError("MaxClientConns and SyncLimit must not be negative")
	case c.Pace < 0 || c.ElectionTime < 0 || c.Lag < 0 || c.PeerDelay < 0:
		return c, configError("Pace, ElectionTime, Lag and PeerDelay must not be negative")
	case c.Reconfig && c.EnsembleConfig != "":
		return c, configError("Reconfig needs the true list of members: leave out EnsembleConfig")
	case !c.Profile.valid():
		return c, configError("unknown Profile %d", int(c.Profile))
	}
	return c, nil
}
