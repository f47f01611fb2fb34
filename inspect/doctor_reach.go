package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// adviseOfReach reports on the quorum if no server may serve. Only a reply can prove that a server has none: a server
// that this client cannot reach may have a quorum and serve others.
func (r *Report) adviseOfReach() {
	without := 0
	away := map[string]int{}
	for _, s := range r.Told {
		if s.hasNoQuorum() {
			without++
		} else {
			away[s.unreachableReason()]++
		}
	}
	var why []string
	for _, reason := range []string{"refused", "silent", noTLS, "unreachable"} {
		if away[reason] > 0 {
			why = append(why, fmt.Sprintf("%s: %d", reason, away[reason]))
		}
	}
	switch reasons := strings.Join(why, ", "); without {
	case len(r.Told):
		r.addAdvice("there is no quorum: each server that the client tries replies that it has none (%d)", without)
	case 0:
		r.addAdvice("cannot reach the servers: none that the client tries replies (%s), so it is unknown whether there is "+
			"a quorum; try from another machine, too: that shows whether the servers fail or the network%s", reasons,
			r.lastAttempt())
	default:
		r.addAdvice("no server with a quorum can be reached: %d reply that they have no quorum; the others cannot be reached "+
			"(%s), and may have one%s", without, reasons, r.lastAttempt())
	}
}

// lastAttempt describes the client's own last failure, which may be more specific than the servers' silence: missing
// TLS, say. The end of a context explains nothing.
func (r *Report) lastAttempt() string {
	err := r.Health.Trouble
	if err == nil && !errors.Is(r.readErr, context.DeadlineExceeded) && !errors.Is(r.readErr, context.Canceled) {
		err = r.readErr
	}
	if err == nil {
		return ""
	}
	return "; the client's last attempt: " + plain.Text(err.Error())
}

// noTLS describes a server with which no encrypted connection can be established.
const noTLS = "no TLS connection"

// unreachableReason returns the reason why the server cannot be reached.
func (s Server) unreachableReason() string {
	if errors.Is(s.Err, framework.ErrTLS) {
		return noTLS
	}
	return s.Role()
}

// adviseOfError explains why a server does not report its state, with advice.
func (r *Report) adviseOfError(s Server) {
	waited, hurried := "in time", false
	if l := (timeoutError{}); errors.As(s.Err, &l) {
		waited, hurried = "for "+l.after.String(), l.after < time.Second
		if hurried {
			waited = "within " + l.after.String()
		}
	}
	switch what := plain.Text(s.Err.Error()); s.unreachableReason() {
	case "no quorum":
		r.addAdvice("the server %s runs without a quorum: a majority of the members must run, and reach each other",
			s.Address)
	case "refused":
		r.addAdvice("the server %s refuses connections: it does not run, or not at this address", s.Address)
	case "silent":
		if hurried {
			r.addAdvice("the server %s has not replied %s: that may be too short a time for it; wait longer", s.Address, waited)
			break
		}
		tls := ""
		if !r.Health.Encrypted {
			tls = ", or this port expects TLS (its secureClientPort), and the client uses none"
		}
		r.addAdvice("the server %s has not replied %s: it hangs, its machine or the network is down, or a firewall drops "+
			"the packets%s", s.Address, waited, tls)
	case noTLS:
		r.addAdvice("the server %s cannot be reached through TLS: %s; compare the authorities (CA), the certificates and the "+
			"server's name that the client was given with what the server has", s.Address, what)
	case "unreachable":
		r.addAdvice("the server %s cannot be reached: %s; check its name, its address and the network", s.Address, what)
	default:
		r.addAdvice("the server %s does not report its state: %s", s.Address, what)
	}
}
