package leader_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// connect returns a client of the server, with its own session.
func connect(server *zktest.Server) *framework.Client {
	// framework.New("zk1:2181,zk2:2181")
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		panic(err)
	}
	return client
}

func serve() *zktest.Server {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	return server
}

func Example() {
	server := serve()
	defer server.Close()
	client := connect(server)
	defer client.Close()

	latch, err := leader.NewLatch(client, "/leaders/billing", leader.WithID("host-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer latch.Close()

	term, err := latch.Await(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	// Work under the term's context: it ends before another participant leads.
	fmt.Println("leads:", term.Valid(), "ended:", term.Context().Err() != nil)
	// Output:
	// leads: true ended: false
}

func ExampleSelector_Run() {
	server := serve()
	defer server.Close()
	client := connect(server)
	defer client.Close()

	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, in a service
	terms := 0
	selector := leader.NewSelector(client, "/leaders/billing", func(ctx context.Context) error {
		terms++
		fmt.Printf("term %d, with a token: %t\n", terms, leader.TermOf(ctx).FencingToken() > 0)
		if terms == 2 {
			stop()
			<-ctx.Done() // the work ends with its context
		}
		return nil // resigns, and joins the line again
	}, leader.WithID("host-1"))
	fmt.Println(selector.Run(ctx))
	// Output:
	// term 1, with a token: true
	// term 2, with a token: true
	// leader /leaders/billing: run: context canceled
}

// A process that leads for a while, without a function for the leader's work.
func ExampleCampaign() {
	server := serve()
	defer server.Close()
	one, two := connect(server), connect(server)
	defer one.Close()
	defer two.Close()
	ctx := context.Background()

	term, err := leader.Campaign(ctx, one, "/leaders/billing", leader.WithID("host-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = leader.Campaign(brief, two, "/leaders/billing", leader.WithID("host-2"))
	fmt.Println("host-1 leads:", term.Valid(), "host-2 waits:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println(term.Resign(ctx))
	term, err = leader.Campaign(ctx, two, "/leaders/billing", leader.WithID("host-2"))
	fmt.Println("host-2 leads:", err == nil && term.Valid())
	// Output:
	// host-1 leads: true host-2 waits: true
	// <nil>
	// host-2 leads: true
}

func ExampleTerm_Resign() {
	server := serve()
	defer server.Close()
	one, two := connect(server), connect(server)
	defer one.Close()
	defer two.Close()
	ctx := context.Background()

	first, _ := leader.NewLatch(one, "/leaders/billing", leader.WithID("host-1"))
	defer first.Close()
	term, _ := first.Await(ctx)
	second, _ := leader.NewLatch(two, "/leaders/billing", leader.WithID("host-2"))
	defer second.Close()
	for second.Health().Role != leader.Following {
		time.Sleep(time.Millisecond)
	}

	fmt.Println("resigned:", term.Resign(ctx))
	next, _ := second.Await(ctx)
	fmt.Println("the token has grown:", next.FencingToken() > term.FencingToken())
	who, _, _ := first.Leader(ctx)
	fmt.Println("leader:", who.ID)
	// Output:
	// resigned: <nil>
	// the token has grown: true
	// leader: host-2
}

func ExampleWithListener() {
	server := serve()
	defer server.Close()
	client := connect(server)
	defer client.Close()

	latch, _ := leader.NewLatch(client, "/leaders/billing", leader.WithListener(leader.Listener{
		OnLeader:    func(*leader.Term) { fmt.Println("leader") },
		OnNotLeader: func(_ *leader.Term, cause error) { fmt.Println("not leader:", cause) },
	}))
	_, _ = latch.Await(context.Background())
	_ = latch.Leave(context.Background(), leader.NotifyLeader) // Close would call no OnNotLeader
	// Output:
	// leader
	// not leader: released
}

func ExampleObserve() {
	server := serve()
	defer server.Close()
	client, observer := connect(server), connect(server)
	defer client.Close()
	defer observer.Close()

	var latch *leader.Latch
	for who, err := range leader.Observe(context.Background(), observer, "/leaders/billing") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("leader:", who.Leader.ID, "nobody:", who.Nobody)
		if latch != nil {
			break
		}
		latch, _ = leader.NewLatch(client, "/leaders/billing", leader.WithID("host-1"))
		defer latch.Close()
	}
	// Output:
	// leader:  nobody: true
	// leader: host-1 nobody: false
}

func ExampleHealth_Check() {
	server := serve()
	defer server.Close()
	client := connect(server)
	defer client.Close()
	latch, _ := leader.NewLatch(client, "/leaders/billing")
	_, _ = latch.Await(context.Background())

	// In a readiness probe: the restart of a server is tolerated for a session timeout.
	fmt.Println(latch.Health().Role, latch.Health().Check(30*time.Second))
	_ = latch.Close()
	fmt.Println(latch.Health().Role, latch.Health().Check(30*time.Second))
	// Output:
	// leading <nil>
	// idle not taking part in the election: the latch has left the election: make a new one to join again
}

func ExampleTerm_Guard() {
	server := serve()
	defer server.Close()
	client := connect(server)
	defer client.Close()
	ctx := context.Background()
	_, _ = client.Create().ForPath(ctx, "/config", nil)

	latch, _ := leader.NewLatch(client, "/leaders/billing")
	defer latch.Close()
	term, _ := latch.Await(ctx)
	// The server executes the transaction only for the leader, whatever the client's clock shows.
	_, err := client.Transaction(ctx, term.Guard(),
		client.TransactionOp().SetData().ForPath("/config", []byte("new")))
	fmt.Println(err)
	// Output:
	// <nil>
}
