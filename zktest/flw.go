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
	"srvr": serving((*Server).srvr),
	"stat": serving((*Server).stat4),
	"mntr": serving((*Server).mntr),
	"cons": serving((*Server).cons),
	"wchs": serving((*Server).wchs),
	"conf": (*Server).conf,
	"envi": (*Server).envi,
}

func knownWord(w string) bool { return words[w] != nil }

// fourLetters answers a four-letter word and closes the connection.
func (s *Server) fourLetters(c *conn, word string) {
	if !s.enter(c) {
		return
	}
	defer s.mu.Unlock()
	var b strings.Builder
	words[word](s, &b)
	c.send([]byte(b.String()))
	c.end(true)
}

// serving gives a word that a member without a leader does not answer.
func serving(word func(*Server, *strings.Builder)) func(*Server, *strings.Builder) {
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
	case s.readOnly():
		b.WriteString("ro")
	case s.member != nil && s.member.role == looking:
		b.WriteString("null")
	default:
		b.WriteString("rw")
	}
}

// mode is the server's role as the words name it.
func (s *Server) mode() string {
	switch {
	case s.member == nil:
		return "standalone"
	case s.member.role == leading:
		return "leader"
	case s.member.role == following:
		return "follower"
	case s.member.role == onlyReads:
		return "read-only"
	}
	return "looking"
}

func (s *Server) versionLine() string {
	return s.cfg.Profile.version() + "-zktest, built on 2022-02-25 08:49 UTC"
}

func (s *Server) srvr(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.versionLine())
	s.numbers(b)
}

func (s *Server) numbers(b *strings.Builder) {
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\nZxid: %#x\nMode: %s\nNode count: %d\n",
		s.received, s.sent, len(s.conns), s.zxid, s.mode(), len(s.tree.nodes)+1)
}

func (s *Server) stat4(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", s.versionLine())
	for _, c := range s.openConns() {
		fmt.Fprintf(b, " /%s[1](queued=0,recved=%d,sent=%d)\n", c.nc.RemoteAddr(), c.received, c.sent)
	}
	b.WriteString("\n")
	s.numbers(b)
}

func (s *Server) cons(b *strings.Builder) {
	for _, c := range s.openConns() {
		fmt.Fprintf(b, " /%s[1](queued=0,recved=%d,sent=%d", c.nc.RemoteAddr(), c.received, c.sent)
		if c.sessionID != 0 {
			fmt.Fprintf(b, ",sid=%#x,lop=NA,est=%d,to=%d,lcxid=%#x,lzxid=%#x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0", c.sessionID,
				c.since.UnixMilli(), c.timeout, uint32(c.lastXid), c.lastZxid)
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

func (s *Server) openConns() []*conn {
	conns := s.connsOf(0)
	slices.SortFunc(conns, func(a, b *conn) int { return int(a.id - b.id) })
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
	fmt.Fprintf(b, "zk_version\t%s\nzk_server_state\t%s\nzk_avg_latency\t0.0\nzk_max_latency\t0\nzk_min_latency\t0\n", s.versionLine(), s.mode())
	fmt.Fprintf(b, "zk_packets_received\t%d\nzk_packets_sent\t%d\nzk_num_alive_connections\t%d\nzk_outstanding_requests\t0\n", s.received, s.sent, len(s.conns))
	fmt.Fprintf(b, "zk_znode_count\t%d\nzk_watch_count\t%d\nzk_ephemerals_count\t%d\nzk_approximate_data_size\t%d\nzk_global_sessions\t%d\n",
		len(s.tree.nodes)+1, s.dataWatches.count()+s.kidWatches.count(), ephemerals, size, len(s.sessions))
	if s.member != nil && s.member.role == leading {
		followers := len(s.member.crew)
		fmt.Fprintf(b, "zk_learners\t%d\nzk_synced_followers\t%d\nzk_quorum_size\t%d\n", followers, followers, len(s.member.e.members))
	}
}

func (s *Server) wchs(b *strings.Builder) {
	conns := map[*conn]struct{}{}
	paths := map[string]struct{}{}
	for _, t := range []*watchTable{s.dataWatches, s.kidWatches} {
		for c := range t.conns {
			conns[c] = struct{}{}
		}
		for path := range t.paths {
			paths[path] = struct{}{}
		}
	}
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", len(conns), len(paths), s.dataWatches.count()+s.kidWatches.count())
}

func (s *Server) conf(b *strings.Builder) {
	id := 0
	if s.member != nil {
		id = s.member.index + 1
	}
	fmt.Fprintf(b, "clientPort=2181\ntickTime=%d\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=%d\n",
		s.cfg.TickTime.Milliseconds(), s.cfg.MaxClientConns, s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds(), id)
	if s.member != nil {
		fmt.Fprintf(b, "initLimit=10\nsyncLimit=%d\nelectionAlg=3\nmembership: \n%s\n", s.cfg.SyncLimit, s.member.e.describe())
	}
}

// envi answers envi, from which some clients learn the version.
func (s *Server) envi(b *strings.Builder) {
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\n", s.versionLine())
}
