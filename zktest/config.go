package zktest

import (
	"log/slog"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Profile selects the release of ZooKeeper to imitate, where releases differ. It is named after a release line; its
// String is the exact release: random histories give the same replies on both (integration/differential).
type Profile int

const (
	// V39 is 3.9.5, the default. A connection can have several watch modes on one path, and events carry a zxid. A
	// check outside a multi is unknown to it, as to V38 (since 3.8.5 and 3.9.3).
	V39 Profile = iota
	// V38 is 3.8.6. As on all releases before 3.9 a connection has one watch mode per path, so that a one-shot watch
	// replaces a persistent one. As with V39 (since 3.8.4 and 3.9.2) a client without READ permission on a node gets
	// no events of that node, although its one-shot watch is consumed, and exists on it is answered with [ErrNoAuth].
	V38
	// V380Debian is the 3.8.0 of Debian 12, which has half of the change of 3.8.4: events are dropped, and exists
	// needs no right. In a multi a create2 is answered without a Stat, as by V36 and V35.
	V380Debian
	// V37 is 3.7.2: exists needs no right, and events are sent whatever the node's ACL.
	V37
	// V36 is 3.6.4, which does not know whoAmI, and does not enforce quotas ([Config].EnforceQuota has no effect).
	V36
	// V35 is 3.5.10, which also does not know addWatch, setWatches2, multiRead, getEphemerals and
	// getAllChildrenNumber. As for every unknown operation, the server answers with [ErrUnimplemented], ahead of the
	// requests in flight, and closes the connection. The counter of sequential nodes continues with negative numbers
	// after 2147483647, where it sticks in later releases.
	V35
)

// releaseBehaviour has the properties of a profile that the code depends on.
type releaseBehaviour struct {
	release         string
	unknown         []int32 // operations of other releases that this one does not have
	enforcesQuotas  bool    // with Config.EnforceQuota
	stackedModes    bool    // of watches
	ownWatches      bool    // are all that checkWatches compares
	eventsNeedRead  bool
	existsNeedsRead bool
	keepsCreate2    bool // a create in a multi is answered by its opcode, and one without a known mode fails them all
	listsNothing    bool // the reply to a multi that the server failed to process has an empty list besides the error
	nullACLFails    bool // instead of being refused
	nodeFirst       bool // a delete looks for the node before the right to delete it

	counterWraps         bool // the counter of sequential nodes, after 2147483647
	readsDeleteContainer bool // when a client sends it
}

var behaviours = [...]releaseBehaviour{
	V39: {
		release: "3.9.5", unknown: []int32{jute.OpCheck}, enforcesQuotas: true, stackedModes: true, ownWatches: true,
		eventsNeedRead: true, existsNeedsRead: true, keepsCreate2: true, readsDeleteContainer: true,
	},
	V38: {
		release: "3.8.6", unknown: []int32{jute.OpCheck}, enforcesQuotas: true,
		eventsNeedRead: true, existsNeedsRead: true, keepsCreate2: true, listsNothing: true,
	},
	V380Debian: {release: "3.8.0", enforcesQuotas: true, eventsNeedRead: true, listsNothing: true},
	V37:        {release: "3.7.2", enforcesQuotas: true, keepsCreate2: true, listsNothing: true},
	V36:        {release: "3.6.4", unknown: []int32{jute.OpWhoAmI}, listsNothing: true},
	V35: {
		release: "3.5.10", unknown: []int32{
			jute.OpMultiRead, jute.OpSetWatches2, jute.OpAddWatch, jute.OpWhoAmI, jute.OpGetEphemerals,
			jute.OpGetAllChildrenNumber,
		},
		ownWatches: true, nodeFirst: true, listsNothing: true, nullACLFails: true, counterWraps: true,
	},
}

// Profiles returns all profiles, the newest first.
func Profiles() []Profile {
	all := make([]Profile, len(behaviours))
	for i := range all {
		all[i] = Profile(i)
	}
	return all
}

// String returns the release, such as 3.9.5.
func (p Profile) String() string {
	if !p.isValid() {
		return "unknown"
	}
	return behaviours[p].release
}

func (p Profile) isValid() bool { return p >= 0 && int(p) < len(behaviours) }

// behaviour returns the behaviour of a valid profile.
func (p Profile) behaviour() *releaseBehaviour { return &behaviours[p] }

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
	// Profile is the release to imitate. Default [V39].
	Profile Profile
	// EnsembleConfig is the data of /zookeeper/config. Default "", as on a standalone server; in an ensemble
	// a list of the members. It is only text: which members vote does not depend on it.
	EnsembleConfig string
	// Reconfig allows reconfigurations of an ensemble (reconfigEnabled=true) to clients that may write
	// /zookeeper/config: the super user ([Config.SuperDigest]), and users to whom the super user has given the
	// right by an ACL. A standalone server then answers with [ErrUnimplemented]. Default: refused with
	// [ErrReconfigDisabled]. See [NewEnsemble] for the effects of a reconfiguration. It excludes EnsembleConfig.
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
	// further connection immediately. All clients of the in-memory network have the same address. Default 0:
	// no limit.
	MaxClientConns int
	// Pace is the shortest time between two replies or events of a connection. Default 0: replies and events
	// sent at one instant can arrive together. With any other value, however short, a client in virtual time
	// handles each before the next arrives.
	Pace time.Duration
	// Logger gets the log lines of the server. Default: nothing is logged, except a warning about Listen.
	Logger *slog.Logger
	alarm  *slog.Logger // never silent

	// The fields below are for ensembles.

	// SyncLimit is the number of ticks without a message after which a follower stops following its leader, and
	// a leader drops a follower. Default 5.
	SyncLimit int
	// ElectionTime is the time that members without a leader need to elect a leader and to copy its state.
	// Default 400 ms.
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
	case !c.Profile.isValid():
		return c, configError("unknown Profile %d", int(c.Profile))
	}
	return c, nil
}
