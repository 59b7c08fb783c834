//go:build unix

// Package pgtest runs a real PostgreSQL server for tests: in a directory of its own, on a free port of the loopback
// interface and a socket in that directory, as the user postgres when the tests run as root, which PostgreSQL refuses to.
package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// ErrNone says that this system has no PostgreSQL server.
var ErrNone = errors.New("there is no PostgreSQL server here (package postgresql in Debian)")

// The superuser of each server, over the socket without a password.
const (
	User     = "postgres"
	Password = "test-password"
)

// StartTimeout ends the start of a server that hangs. Together with making its files, which is most of it, a start takes two seconds, and a minute on
// a machine where dozens of processes wait for a processor.
const StartTimeout = 5 * time.Minute

// Server is a PostgreSQL server. Its methods are for one goroutine.
type Server struct {
	// Directory of all that the server has; it also has the socket.
	Directory string
	// Port on 127.0.0.1, and of the socket. It may be changed while the server does not run.
	Port int
	// Arguments of the server besides the usual ones, such as "-c", "max_connections=300". They may be changed while it does not run.
	Arguments []string

	bin     string
	account *syscall.Credential
	process *exec.Cmd
	log     *bytes.Buffer
}

// New makes the files of a server in a directory of its own. Remove ends it.
func New() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, log: new(bytes.Buffer)}
	if s.Directory, err = os.MkdirTemp("", "pgtest"); err != nil { // short: a socket's path may have 107 bytes
		return nil, err
	}
	if err := s.initialize(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Started makes and starts a server with an empty database. Remove ends it.
func Started(ctx context.Context, database string) (*Server, error) {
	s, err := New()
	if err != nil {
		return nil, err
	}
	if err = s.Start(ctx); err == nil {
		err = Execute(ctx, s.DSN("postgres"), "CREATE DATABASE "+database)
	}
	if err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Open returns a server with the files that [New] has made in a directory, whose process was stopped or killed. It gets another port.
func Open(directory string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{Directory: directory, bin: bin, log: new(bytes.Buffer)}
	if _, err := os.Stat(s.data()); err != nil {
		return nil, err
	}
	if err := s.own(); err != nil {
		return nil, err
	}
	s.Port, err = freePort()
	return s, err
}

// binaries returns the directory of the server that is installed: the one on the path, or else the newest of Debian's.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(b, a)) })
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append([]string{filepath.Dir(path)}, found...)
	}
	for _, directory := range found {
		complete := true
		for _, name := range []string{"initdb", "postgres", "pg_isready", "pg_basebackup"} {
			_, err := exec.LookPath(filepath.Join(directory, name))
			complete = complete && err == nil
		}
		if complete {
			return directory, nil
		}
	}
	return "", ErrNone
}

// own gives the directory to the user postgres, and has the server run as that user, if the tests run as root.
func (s *Server) own() error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("%w: the tests run as root, and there is no user postgres", ErrNone)
	}
	uid, _ := strconv.ParseUint(account.Uid, 10, 32)
	gid, _ := strconv.ParseUint(account.Gid, 10, 32)
	s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.Directory, int(uid), int(gid))
}

func (s *Server) initialize() error {
	if err := s.own(); err != nil {
		return err
	}
	password := filepath.Join(s.Directory, "password")
	if err := os.WriteFile(password, []byte(Password), 0o644); err != nil {
		return err
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", User, "--pwfile", password, "-A", "scram-sha-256", "--auth-local", "trust",
		"-E", "UTF8", "--locale", "C", "--no-sync")
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	var err error
	s.Port, err = freePort()
	return err
}

// Standby makes a standby of the running server, which follows it once it is started. Remove ends it.
func (s *Server) Standby(context.Context) (*Server, error) { return NewStandby(s, s.Address()) }

// freePort returns a port of the loopback interface that stays free while the server does not run.
func freePort() (int, error) {
	address, err := freeport.Address()
	if err != nil {
		return 0, err
	}
	at, err := netip.ParseAddrPort(address)
	return int(at.Port()), err
}

func (s *Server) data() string { return filepath.Join(s.Directory, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Directory
	cmd.SysProcAttr = attributes(s.account)
	return cmd
}

// Start starts the server and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	s.log.Reset()
	arguments := []string{
		"-D", s.data(), "-k", s.Directory, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
		"-c", "shared_buffers=16MB", "-c", "max_connections=100",
	}
	s.process = s.command("postgres", append(arguments, s.Arguments...)...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for {
		if s.command("pg_isready", "-q", "-h", s.Directory, "-p", strconv.Itoa(s.Port)).Run() == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			_ = s.Stop()
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", ctx.Err(), s.log)
		}
	}
}

// Stop ends the server in order, without waiting for its clients.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

// Destroy ends the server's first process with SIGKILL. The others notice it and end by themselves, so that the next Start may have to wait
// for them.
func (s *Server) Destroy() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.Process.Signal(signal)
	_ = s.process.Wait() // how it ended does not matter
	s.process = nil
	return err
}

// Remove stops the server and removes its files.
func (s *Server) Remove() {
	_ = s.Stop()
	_ = os.RemoveAll(s.Directory)
}

// Address returns where the server is over TCP.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// DSN returns how to connect to a database over the socket, as the superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.Directory, s.Port, User, database)
}

// URL returns how to connect to a database over TCP, as any user.
func (s *Server) URL(user, password, database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, s.Port, database)
}

// URLAt returns how to connect to a database of a server at an address, such as a forwarder's, as the superuser.
func URLAt(address, database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", User, Password, address, database)
}

// Run is the TestMain of a package whose tests share one server: it starts a server, hands it to prepare, runs the tests, stops the server, and
// looks for goroutines that are left. It returns the status to exit with. Without a PostgreSQL server on this system, prepare is not called.
func Run(tests interface{ Run() int }, prepare func(context.Context, *Server) error) int {
	s, err := New()
	switch {
	case errors.Is(err, ErrNone):
		fmt.Println("skipping tests:", err)
		return tests.Run()
	case err != nil:
		fmt.Println(err)
		return 1
	}
	defer s.Remove()
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := prepare(ctx, s); err != nil {
		fmt.Println(err)
		return 1
	}
	code := tests.Run()
	_ = s.Stop() // before the leak check: the server has a goroutine that copies its output
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}

// Execute runs statements, each by itself, as psql would.
func Execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// NewStandby makes the files of a standby of a server that runs, by pg_basebackup over the server's socket. When it runs, the standby reads
// what the server writes over TCP from an address: the server's, or a forwarder's to it. Remove ends it.
func NewStandby(of *Server, address string) (*Server, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: of.bin, account: of.account, Arguments: of.Arguments, log: new(bytes.Buffer)}
	if s.Directory, err = os.MkdirTemp("", "pgtest"); err != nil {
		return nil, err
	}
	if err := s.copy(of, host, port); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) copy(of *Server, host, port string) error {
	if s.account != nil {
		if err := os.Chown(s.Directory, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return err
		}
	}
	backup := s.command("pg_basebackup", "-D", s.data(), "-h", of.Directory, "-p", fmt.Sprint(of.Port), "-U", User, "-c", "fast", "-X", "stream", "--no-sync")
	if output, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	settings := fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s password=%s sslmode=disable'\nwal_retrieve_retry_interval = '100ms'\n", host, port, User, Password)
	if err := os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(settings), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600); err != nil {
		return err
	}
	if s.account != nil {
		for _, name := range []string{"postgresql.auto.conf", "standby.signal"} {
			if err := os.Chown(filepath.Join(s.data(), name), int(s.account.Uid), int(s.account.Gid)); err != nil {
				return err
			}
		}
	}
	var err error
	s.Port, err = freePort()
	return err
}
