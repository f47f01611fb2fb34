package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/go-curator/curator/contrib/fence"
	fencesql "github.com/go-curator/curator/contrib/fence/sql"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Two holders of a lock write to SQLite. The first one writes once more after it has lost the lock, as a process may
// that was stopped for a while.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // one database
	ctx := context.Background()
	fences := fencesql.New(fencesql.SQLite)
	if err := fences.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER)"); err != nil {
		log.Fatal(err)
	}

	write := func(token int64, n int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := fences.Guard(ctx, tx, "stock", token); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if _, err := tx.ExecContext(ctx, "REPLACE INTO stock VALUES ('apples', ?)", n); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}

	stock := mutex.New(client, "/locks/stock")
	var former int64
	for holder := range 2 {
		err := stock.Do(ctx, func(ctx context.Context) error {
			token, err := fence.From(ctx) // the lock's token
			if err != nil {
				return err
			}
			if holder == 0 {
				former = token
			}
			return write(token, 3-holder)
		})
		fmt.Printf("holder %d: %v\n", holder, err)
	}
	err = write(former, 100)
	fmt.Println("holder 0, late: refused:", errors.Is(err, fence.ErrOutdated))
	var n int
	if err := db.QueryRow("SELECT n FROM stock").Scan(&n); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "apples")
	// Output:
	// holder 0: <nil>
	// holder 1: <nil>
	// holder 0, late: refused: true
	// 2 apples
}
