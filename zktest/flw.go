package zktest

import (
	"fmt"
	"slices"
	"strings"
)

// words are the four-letter words, all of them allowed.
var words = map[string]func(*Server, *strings.Builder){
	"ruok": func(_ *Server, b *strings.Builder) { b.WriteString("imok") },
	"isro": (*Server).isro,
	"srvr": ifServing((*Server).srvr),
	"stat": ifServing((*Server).stat4),
	"mntr": ifServing((*Server).mntr),
	"cons": ifServing((*Server).cons),
	"wchs": ifServing((*Server).wchs),
	"conf": (*Server).conf,
	"envi": (*Server).envi,
}

func isFourLetterWord(w string) bool { return words[w] != nil }

// serveFourLetterWord answers a four-letter word and closes the connection.
func (s *Server) serveFourLetterWord(c *clientConn, word string) {
	if !s.lockWhenOpen(c) {
		return
	}
	defer s.mu.Unlock()
	var b strings.Builder
	words[word](s, &b)
	c.queueFrame([]byte(b.String()))
	c.closeConn(true)
}

// ifServing wraps the answer to a four-letter word: a member without a leader answers that it is not serving
// requests.
func ifServing(word func(*Server, *strings.Builder)) func(*Server, *strings.Builder) {
	return func(s *Server, b *strings.Builder) {
		if s.member != nil && s.member.role == looking {
			b.WriteString("This ZooKeeper instance is not currently serving requests\n")
			return
		}
		word(s, b)
	}
}

func (s *Server) isro(b *strings.Builder) {
	switch {
	case s.isReadOnly():
		b.WriteString("ro")
	case s.member != nil && s.member.role == looking:
		b.WriteString("null")
	default:
		b.WriteString("rw")
	}
}

// modeName returns the server's role as the words name it.
func (s *Server) modeName() string {
	switch {
	case s.member == nil:
		return "standalone"
	case s.member.role == leading:
		return "leader"
	case s.member.role == following && s.member.config.hasObserver(s.member):
		return "observer"
	case s.member.role == following:
		return "follower"
	case s.member.role == onlyReads:
		return "read-only"
	}
	return "looking"
}

func (s *Server) versionLine() string {
	return s.cfg.Profile.String() + "-zktest, built on 2022-02-25 08:49 UTC"
}

func (s *Server) srvr(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.versionLine())
	s.writeCounters(b)
}

func (s *Server) writeCounters(b *strings.Builder) {
	b.WriteString("Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(b, "Received: %d\nSent: %d\nConnections: %d\n", s.received, s.sent, len(s.conns))
	b.WriteString("Outstanding: 0\n")
	fmt.Fprintf(b, "Zxid: %#x\nMode: %s\nNode count: %d\n", s.zxid, s.modeName(), len(s.tree.nodes)+1)
}

func (s *Server) stat4(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", s.versionLine())
	for _, c := range s.openClientConns() {
		fmt.Fprintf(b, " /%s[1](queued=0,recved=%d,sent=%d)\n", c.nc.RemoteAddr(), c.received, c.sent)
	}
	b.WriteString("\n")
	s.writeCounters(b)
}

func (s *Server) cons(b *strings.Builder) {
	for _, c := range s.openClientConns() {
		fmt.Fprintf(b, " /%s[1](queued=0,recved=%d,sent=%d", c.nc.RemoteAddr(), c.received, c.sent)
		if c.sessionID != 0 {
			fmt.Fprintf(b, ",sid=%#x,lop=NA,est=%d,to=%d", c.sessionID, c.since.UnixMilli(), c.timeout)
			fmt.Fprintf(b, ",lcxid=%#x,lzxid=%#x", uint32(c.lastXid), c.lastZxid)
			lresp := int64(0) // a real server's is by its own monotonic clock; 0 before the first reply
			if !c.answered.IsZero() {
				lresp = c.answered.UnixMilli()
			}
			fmt.Fprintf(b, ",lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0", lresp)
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

func (s *Server) openClientConns() []*clientConn {
	conns := s.connsOfSession(0)
	slices.SortFunc(conns, func(a, b *clientConn) int { return int(a.id - b.id) })
	return conns
}

func (s *Server) mntr(b *strings.Builder) {
	ephemerals, size := 0, 0
	for _, own := range s.tree.ephemerals {
		ephemerals += len(own)
	}
	for path, n := range s.tree.nodes {
		size += len(path) + len(n.data)
	}
	line := func(name string, value any) { fmt.Fprintf(b, "zk_%s\t%v\n", name, value) }
	line("version", s.versionLine())
	line("server_state", s.modeName())
	line("avg_latency", "0.0")
	line("max_latency", 0)
	line("min_latency", 0)
	line("packets_received", s.received)
	line("packets_sent", s.sent)
	line("num_alive_connections", len(s.conns))
	line("outstanding_requests", 0)
	line("znode_count", len(s.tree.nodes)+1)
	line("watch_count", s.dataWatches.countWatches()+s.kidWatches.countWatches())
	line("ephemerals_count", ephemerals)
	line("approximate_data_size", size)
	line("global_sessions", len(s.sessions))
	if s.member != nil && s.member.role == leading {
		line("learners", len(s.member.crew))
		line("synced_followers", len(s.member.crew))
		line("quorum_size", len(s.member.e.members))
	}
}

func (s *Server) wchs(b *strings.Builder) {
	conns := map[*clientConn]struct{}{}
	paths := map[string]struct{}{}
	for _, t := range []*watchTable{s.dataWatches, s.kidWatches} {
		for c := range t.conns {
			conns[c] = struct{}{}
		}
		for path := range t.paths {
			paths[path] = struct{}{}
		}
	}
	watches := s.dataWatches.countWatches() + s.kidWatches.countWatches()
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", len(conns), len(paths), watches)
}

func (s *Server) conf(b *strings.Builder) {
	id := 0
	if s.member != nil {
		id = s.member.index + 1
	}
	fmt.Fprintf(b, "clientPort=2181\ntickTime=%d\n", s.cfg.TickTime.Milliseconds())
	fmt.Fprintf(b, "maxClientCnxns=%d\n", s.cfg.MaxClientConns)
	fmt.Fprintf(b, "minSessionTimeout=%d\n", s.cfg.MinSessionTimeout.Milliseconds())
	fmt.Fprintf(b, "maxSessionTimeout=%d\n", s.cfg.MaxSessionTimeout.Milliseconds())
	fmt.Fprintf(b, "serverId=%d\n", id)
	if s.member != nil {
		fmt.Fprintf(b, "initLimit=10\nsyncLimit=%d\nelectionAlg=3\n", s.cfg.SyncLimit)
		fmt.Fprintf(b, "membership: \n%s\n", s.member.config)
	}
}

// envi has only the version, which some clients read from it.
func (s *Server) envi(b *strings.Builder) {
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\n", s.versionLine())
}
