package simulation_test

import (
	"flag"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	workFlag  = flag.String("works", "", "what the clients do, with commas; empty: as the seed says")
	crowdFlag = flag.Bool(
		"crowd",
		false,
		"three contenders in each client, and events that come one by one",
	)
	restsFlag     = flag.Bool("rests", false, "clients rest before they contend, and faults strike at grants")
	stillFlag     = flag.Bool("still", false, "one server, no faults, and nothing that takes time")
	historiesFlag = flag.String(
		"histories",
		"",
		"a directory for what was done to mutex, latch, selector and counter",
	)
	mutantFlag = flag.String("mutant", "", "a deliberate bug to switch on; needs the build tag mutants")
)

// short is the number of seeds of a usual test run. With -short chaos plays a fifth of them.
const short = 20

// simulation returns the scenario and the configuration for chaos.
func simulation(v variant) (scenario func(*chaos.World), cfg chaos.Config) {
	s := &stage{}
	return s.play, chaos.Config{
		Plan: func(p *chaos.Plan) { *p = *newPlan(p.Seed, v).Plan },
		Server: func(p *chaos.Plan, cfg *zktest.Config) {
			if own, err := planOf(*p); err == nil {
				own.server(cfg)
			}
		},
		Custom: custom(s),
	}
}

// works splits a list at its commas.
func works(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func TestSim(t *testing.T) {
	setMutant(t, *mutantFlag)
	defer mutant.Set("")
	scenario, cfg := simulation(variant{works(*workFlag), *restsFlag, *crowdFlag, *stillFlag})
	cfg.Count = short
	chaos.Test(t, scenario, cfg)
}
