package zktest

import (
	"fmt"
	"slices"
	"strings"
)

// words are the four-letter words, all of them allowed.
var words = map[string]func(*Server, *strings.Builder){
	"ruok": func(_ *Server, b *strings.Builder) { b.WriteString("imok") },
	"isro": func(_ *Server, b *strings.Builder) { b.WriteString("rw") },
	"srvr": (*Server).srvr,
	"stat": (*Server).stat4,
	"mntr": (*Server).mntr,
	"cons": (*Server).cons,
	"wchs": (*Server).wchs,
	"conf": (*Server).conf,
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

func (s *Server) versionLine() string {
	return s.cfg.Profile.version() + "-zktest, built on 2022-02-25 08:49 UTC"
}

func (s *Server) srvr(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.versionLine())
	s.numbers(b)
}

func (s *Server) numbers(b *strings.Builder) {
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\nZxid: %#x\nMode: standalone\nNode count: %d\n",
		s.received, s.sent, len(s.conns), s.zxid, len(s.tree.nodes)+1)
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
	fmt.Fprintf(b, "zk_version\t%s\nzk_server_state\tstandalone\nzk_avg_latency\t0.0\nzk_max_latency\t0\nzk_min_latency\t0\n", s.versionLine())
	fmt.Fprintf(b, "zk_packets_received\t%d\nzk_packets_sent\t%d\nzk_num_alive_connections\t%d\nzk_outstanding_requests\t0\n", s.received, s.sent, len(s.conns))
	fmt.Fprintf(b, "zk_znode_count\t%d\nzk_watch_count\t%d\nzk_ephemerals_count\t%d\nzk_approximate_data_size\t%d\nzk_global_sessions\t%d\n",
		len(s.tree.nodes)+1, s.dataWatches.count()+s.kidWatches.count(), ephemerals, size, len(s.sessions))
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
	fmt.Fprintf(b, "clientPort=2181\ntickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\n",
		s.cfg.TickTime.Milliseconds(), s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds())
}
