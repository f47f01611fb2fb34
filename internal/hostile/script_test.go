package hostile

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/zktest"
)

// A script determines the tricks of the man in the middle, and the kind of client: two bytes of settings, and stepSize
// bytes for each step. Any bytes are a script, so every mutation by the fuzzer is one, too.
type script struct {
	settings settings
	seed     uint64 // of pauses, and of the honest writer
	steps    []step
}

// settings are bits.
type settings byte

const (
	digest    settings = 1 << iota // the server demands a digest
	sasl                           // … or, without digest, a SASL login
	library                        // requests through Client.Conn, which has a decoder of its own
	oneShot                        // caches with one-shot watches
	readOnly                       // the client accepts a member without a quorum
	beats                          // the server reports that it is a member of an ensemble: holds by heartbeats
	early                          // the client is closed in the middle of the run
	suspended                      // holds are lost with the connection
)

func (s settings) has(bit settings) bool { return s&bit != 0 }

// step is one trick, for the first frame that matches, after skip other matching frames.
type step struct {
	skip    int
	on      match
	trick   trick
	a, b, c byte
}

const (
	stepSize = 6
	maxSteps = 24
	// maxWait is the number of frames after which a step without a matching frame is skipped.
	maxWait = 60
)

func parse(b []byte) script {
	var head [2]byte
	b = b[copy(head[:], b):]
	s := script{settings: settings(head[0]), seed: uint64(head[1])}
	if !*withLibrary {
		s.settings &^= library
	}
	for len(b) >= stepSize && len(s.steps) < maxSteps {
		s.steps = append(s.steps, step{
			skip: int(b[0] % 32), on: match(b[1]) % matches, trick: trick(b[2]) % tricks,
			a: b[3], b: b[4], c: b[5],
		})
		b = b[stepSize:]
	}
	return s
}

func (s script) bytes() []byte {
	b := []byte{byte(s.settings), byte(s.seed)}
	for _, p := range s.steps {
		b = append(b, byte(p.skip), byte(p.on), byte(p.trick), p.a, p.b, p.c)
	}
	return b
}

func (s script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "settings %08b, seed %d", s.settings, s.seed)
	for _, p := range s.steps {
		fmt.Fprintf(&b, "; %v", p)
	}
	fmt.Fprintf(&b, " (%s)", hex.EncodeToString(s.bytes()))
	return b.String()
}

func (p step) String() string {
	on, what := matchNames[p.on], trickNames[p.trick]
	return fmt.Sprintf("after %d of %s: %s %d %d %d", p.skip, on, what, p.a, p.b, p.c)
}

// random makes a script from a seed. Half of the scripts use only tricks without lies, so that the strictest
// promises are checked.
func random(seed uint64) script {
	r := rand.New(rand.NewPCG(seed, 7))
	s := script{settings: settings(r.Uint32()), seed: seed & 0xff}
	if r.IntN(2) == 0 {
		s.settings &^= digest | sasl
	}
	if r.IntN(4) > 0 {
		s.settings &^= early
	}
	if !*withLibrary {
		s.settings &^= library
	}
	honest := r.IntN(2) == 0
	for range 1 + r.IntN(8) {
		p := step{
			skip: r.IntN(1 << r.IntN(6)), on: match(r.IntN(int(matches))), trick: trick(r.IntN(int(tricks))),
			a: byte(r.Uint32()), b: byte(r.Uint32()), c: byte(r.Uint32()),
		}
		for honest && lying[p.trick] {
			p.trick = trick(r.IntN(int(tricks)))
		}
		switch r.IntN(4) {
		case 0:
			p.on = anything
		case 1:
			p.on, p.skip = connecting, 0
		}
		s.steps = append(s.steps, p)
	}
	return s
}

// corpus has each trick on each kind of frame, some of them in one script, and some random ones.
func corpus() (all []script) {
	for k := range tricks {
		for first := range match(3) {
			n := len(all)
			s := script{settings: settings(n*37) &^ (early | library), seed: uint64(n)}
			if n%5 > 0 {
				s.settings &^= digest | sasl
			}
			if n%10 == 0 {
				s.settings |= early
			}
			for on := first; on < matches; on += 3 {
				s.steps = append(s.steps, step{
					skip: int(on) % 7, on: on, trick: k,
					a: byte(int(k)*31 + int(on)*7), b: byte(int(on) * 13), c: byte(n),
				})
			}
			all = append(all, s)
		}
	}
	for seed := range uint64(30) {
		all = append(all, random(1000+seed))
	}
	return all
}

// ---- the server and client that a script determines ----

const (
	sessionTimeout = 10 * time.Second
	closingTimeout = 5 * time.Second
	user, secret   = "zoe", "wHisperedSecret4711"
)

func (s script) server() zktest.Config {
	cfg := zktest.Config{}
	switch {
	case s.settings.has(digest):
		cfg.RequireAuth = true
	case s.settings.has(sasl):
		cfg.RequireSASL, cfg.SASLUsers = true, map[string]string{user: secret}
	}
	if s.settings.has(beats) {
		cfg.EnsembleConfig = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n" +
			"server.2=10.0.0.2:2888:3888:participant;0.0.0.0:2181\n" +
			"version=100000000"
	}
	return cfg
}

func (s script) client() []framework.Option {
	opts := []framework.Option{
		framework.WithSessionTimeout(sessionTimeout),
		framework.WithClosingTimeout(closingTimeout),
	}
	switch {
	case s.settings.has(digest):
		opts = append(opts, framework.WithAuth("digest", []byte(user+":"+secret)))
	case s.settings.has(sasl):
		opts = append(opts, framework.WithSASLDigest(user, secret))
	}
	if s.settings.has(readOnly) {
		opts = append(opts, framework.WithReadOnly())
	}
	return opts
}

func (s script) loss() framework.LossPolicy {
	if s.settings.has(suspended) {
		return framework.SuspendedIsLoss
	}
	return framework.SessionOnly
}

// pauses makes the script the source of all random pauses of the library.
func (s script) pauses() (end func()) { return chance.Seed(s.seed) }
