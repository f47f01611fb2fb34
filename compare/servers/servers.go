package servers

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/go-curator/curator/compare/internal/ways"
)

// Options configure a server.
type Options struct {
	Members int  // of ZooKeeper and etcd: 1 or 3
	Cluster bool // it is a cluster of one, of Redis alone: keys of several slots in one call are refused
}

// Start starts servers of a kind in dir and waits until they serve. After an error no server is left running. As root
// the servers run as another user, who has to get to dir.
func Start(kind ways.Server, dir string, o Options) (Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { // and not as their own: they may share it
		return nil, err
	}
	switch kind {
	case ways.Redis:
		return started(redis(dir, 1, o))
	case ways.FiveRedis:
		return started(redis(dir, 5, o))
	case ways.RedisPair:
		return started(pair(dir, o))
	case ways.Memcached:
		return started(memcached(dir))
	case ways.MariaDB:
		return started(mariadb(dir))
	case ways.PostgreSQL:
		return started(postgres(dir))
	case ways.Etcd:
		return started(etcd(dir, max(o.Members, 1)))
	case ways.ZooKeeper:
		return started(zookeeper(dir, max(o.Members, 1)))
	}
	return nil, fmt.Errorf("there are no servers %q", kind)
}

// started returns a nil Server after an error.
func started[S Server](s S, err error) (Server, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// begun starts all of s, or leaves nothing.
func begun(s *single, err error) (*single, error) {
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// redis has an append-only file, so that a restart keeps the keys. Redis's own default does not.
func redis(dir string, n int, o Options) (*single, error) {
	s := &single{}
	at, err := ports(2 * n)
	for i := range len(at) / 2 {
		port, busPort := at[2*i], at[2*i+1]
		p := redisAt(filepath.Join(dir, fmt.Sprint("redis", i)), port)
		if o.Cluster {
			// Its own choice is 10,000 above the port, which may be the local port of a connection.
			p.argv, p.ready = append(p.argv, "--cluster-enabled", "yes", "--cluster-port", busPort), slots(port)
		}
		s.addrs, s.processes = append(s.addrs, "127.0.0.1:"+port), append(s.processes, p)
	}
	return begun(s, err)
}

func redisAt(dir, port string, more ...string) *process {
	return &process{dir: dir, ready: ping(port), clock: redisTime(port),
		argv: append([]string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", filepath.Join(dir, "data"),
			"--appendonly", "yes", "--repl-diskless-sync-delay", "0"}, more...)}
}

// slots asks a Redis that is a cluster alone, and gives it all slots.
func slots(port string) func(ctx context.Context) error {
	addr := "127.0.0.1:" + port
	return func(ctx context.Context) error {
		info, err := rest(ctx, addr, "CLUSTER INFO\r\nQUIT\r\n")
		if err != nil || strings.Contains(info, "cluster_state:ok") {
			return err
		}
		if strings.Contains(info, "cluster_slots_assigned:0") {
			_, err = ask(ctx, addr, "CLUSTER ADDSLOTSRANGE 0 16383\r\n")
		}
		return errors.Join(errors.New("the cluster is not ready"), err)
	}
}

// ping asks a Redis.
func ping(port string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		answer, err := ask(ctx, "127.0.0.1:"+port, "PING\r\n")
		if err == nil && answer != "+PONG" {
			err = errors.New(answer)
		}
		return err
	}
}

// ask sends a line and returns the first line of the answer.
func ask(ctx context.Context, addr, line string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return "", err
		}
	}
	if _, err := conn.Write([]byte(line)); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// redisTime asks a Redis for the time.
func redisTime(port string) func(ctx context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		answer, err := rest(ctx, "127.0.0.1:"+port, "TIME\r\nQUIT\r\n")
		if err != nil {
			return time.Time{}, err
		}
		var seconds int64
		if _, err := fmt.Sscanf(answer, "*2\r\n$10\r\n%d\r\n", &seconds); err != nil {
			return time.Time{}, fmt.Errorf("TIME: %q: %w", answer, err)
		}
		return time.Unix(seconds, 0), nil
	}
}

// memcached reads the wall clock when it starts, and then no more: it has none to show.
func memcached(dir string) (*single, error) {
	at, err := ports(1)
	if err != nil {
		return nil, err
	}
	addr := "127.0.0.1:" + at[0]
	home := filepath.Join(dir, "memcached")
	return begun(&single{addrs: []string{addr}, processes: []*process{{dir: home,
		argv: []string{"memcached", "-p", at[0], "-l", "127.0.0.1", "-U", "0"},
		ready: func(ctx context.Context) error {
			_, err := ask(ctx, addr, "version\r\n")
			return err
		}}}}, nil)
}

func mariadb(dir string) (*single, error) {
	at, err := ports(1)
	if err != nil {
		return nil, err
	}
	addr, home := "127.0.0.1:"+at[0], filepath.Join(dir, "mariadb")
	data := filepath.Join(home, "data")
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", addr
	config.Logger = quiet{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return begun(&single{addrs: []string{addr}, processes: []*process{{dir: home,
		argv: []string{"/usr/sbin/mariadbd", "--no-defaults", "--datadir=" + data, "--port=" + at[0],
			"--bind-address=127.0.0.1", "--socket=" + filepath.Join(home, "socket"), "--pid-file=" + filepath.Join(home, "pid"),
			"--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2"},
		prepare: func(data string) error {
			return run(home, "mariadb-install-db", "--no-defaults", "--datadir="+data,
				"--auth-root-authentication-method=normal", "--skip-test-db")
		},
		ready: func(ctx context.Context) error {
			conn, err := connector.Connect(ctx)
			if err != nil {
				return err
			}
			return conn.Close()
		},
		clock: func(ctx context.Context) (time.Time, error) {
			db := sql.OpenDB(connector)
			defer db.Close()
			var seconds int64
			err := db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&seconds)
			return time.Unix(seconds, 0), err
		}}}}, nil)
}

type quiet struct{}

func (quiet) Print(...any) {}

func postgres(dir string) (*single, error) {
	at, err := ports(1)
	if err != nil {
		return nil, err
	}
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	addr, home := "127.0.0.1:"+at[0], filepath.Join(dir, "postgres")
	url := "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	return begun(&single{addrs: []string{addr}, processes: []*process{{dir: home,
		argv: []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(home, "data"), "-p", at[0], "-h", "127.0.0.1",
			"-k", home},
		prepare: func(data string) error {
			return run(home, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N",
				"--locale=C", "-E", "UTF8")
		},
		ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
		clock: func(ctx context.Context) (now time.Time, err error) {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return now, err
			}
			err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
			return now, errors.Join(err, conn.Close(ctx))
		}}}}, nil)
}

// postgresBin returns the directory of the newest version's programs; Debian does not put them into PATH.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", fmt.Errorf("%w; compare/setup installs it", err)
	}
	return filepath.Dir(path), nil
}

func etcd(dir string, n int) (*single, error) {
	at, err := ports(2 * n)
	s := &single{lazy: n > 1}
	var cluster []string
	for i := range n {
		if err != nil {
			break
		}
		cluster = append(cluster, fmt.Sprintf("m%d=http://127.0.0.1:%s", i, at[2*i+1]))
	}
	for i := range cluster {
		client, peer := "127.0.0.1:"+at[2*i], "http://127.0.0.1:"+at[2*i+1]
		home := filepath.Join(dir, fmt.Sprint("etcd", i))
		s.addrs = append(s.addrs, client)
		s.processes = append(s.processes, &process{dir: home,
			argv: []string{"etcd", "--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(home, "data"),
				"--listen-client-urls", "http://" + client, "--advertise-client-urls", "http://" + client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", strings.Join(cluster, ","), "--logger", "zap"},
			ready: func(ctx context.Context) error {
				_, text, err := health(ctx, client)
				if err == nil && !bytes.Contains(text, []byte(`"health":"true"`)) {
					err = errors.New(string(text))
				}
				return err
			},
			clock: func(ctx context.Context) (time.Time, error) {
				head, _, err := health(ctx, client)
				if err != nil {
					return time.Time{}, err
				}
				return http.ParseTime(head.Get("Date"))
			}})
	}
	return begun(s, err)
}

// health asks an etcd for its health. The head of its reply has its time.
func health(ctx context.Context, addr string) (head http.Header, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.Header, text, err
}

// rest sends lines and returns all of the answer, until the server ends the connection.
func rest(ctx context.Context, addr, lines string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return "", err
		}
	}
	if _, err := conn.Write([]byte(lines)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
