package inspect

import (
	"net"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// adviseOfServers adds the conclusions from the servers' reports.
func (r *Report) adviseOfServers() {
	modes := map[string]int{}
	for _, s := range r.Told {
		switch modes[s.Mode]++; {
		case s.Err != nil:
			r.adviseOfError(s)
		case s.Mode == "read-only":
			r.addAdvice("the server %s has no quorum, and serves reads only", s.Address)
		}
		r.adviseOfBound(s)
		r.adviseOfConnections(s)
	}
	if modes["standalone"] > 1 || modes["standalone"] == 1 && len(r.Told) > 1 {
		r.addAdvice("%d of the client's servers are standalone, not members of one ensemble: a lock held at one of them can "+
			"be acquired at another; name servers of one ensemble only", modes["standalone"])
	}
}

// adviseOfBound compares the time for which a member may still reply after it was cut off from its leader with the
// bound given to the client.
func (r *Report) adviseOfBound(s Server) {
	safety := r.Health.Safety
	if s.Config == nil || s.Config.SyncLimit == 0 || safety.Standalone || safety.Rule != framework.RuleBound {
		return
	}
	longest := s.Config.TickTime*time.Duration(s.Config.SyncLimit) + s.Config.TickTime*3/2
	if longest > safety.Bound {
		r.addAdvice("the server %s may reply for %v after it has lost its leader ((syncLimit %d + 1.5) × tickTime "+
			"%v), and the client assumes %v: a hold may overlap with the next one; give "+
			"WithStaleServerBound(%v), or lower syncLimit", s.Address, longest, s.Config.SyncLimit,
			s.Config.TickTime, safety.Bound, longest)
	}
}

// adviseOfConnections reports an address whose connections are nearly as many as the server allows.
func (r *Report) adviseOfConnections(s Server) {
	if s.Config == nil || s.Config.MaxClientConnections == 0 || !s.Listed {
		return
	}
	from := map[string]int{}
	busiest := ""
	for _, c := range s.Connections {
		host, _, err := net.SplitHostPort(c.Client)
		if err != nil {
			continue
		}
		if from[host]++; from[host] > from[busiest] || from[host] == from[busiest] && host < busiest {
			busiest = host
		}
	}
	if n, most := from[busiest], s.Config.MaxClientConnections; busiest != "" && n*5 >= most*4 {
		r.addAdvice("the server %s has %d connections from %s, of the %d that it allows for one address "+
			"(maxClientCnxns): further clients there are refused; share clients, or raise it", s.Address, n,
			plain.Text(busiest), most)
	}
}
