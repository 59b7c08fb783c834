//go:build linux

package manifests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/miekg/dns"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// up runs the commands of compose.yaml as processes of this machine: names of services become addresses of the loopback interface.
type up struct {
	t       *testing.T
	project *types.Project
	program string
	server  *pgtest.Server
	port    string // of the simulated servers
	dns     string // address of a server that knows them as echo
}

// run runs a one-shot service to its end, and returns what it wrote.
func (u *up) run(name string) string {
	u.t.Helper()
	out, err := u.command(u.t.Context(), name).CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// command returns the process of a service.
func (u *up) command(ctx context.Context, name string, more ...string) *exec.Cmd {
	u.t.Helper()
	s := u.project.Services[name]
	program, args := u.program, slices.Clone(s.Command)
	if len(s.Entrypoint) > 0 {
		program = s.Entrypoint[0]
	}
	for i, arg := range args {
		switch {
		case arg == "--host=postgres":
			args[i] = fmt.Sprintf("--host=127.0.0.1\x00--port=%d", u.server.Port)
		case arg == "--file=/seed.sql":
			args[i] = "--file=" + u.seed()
		default:
			args[i] = strings.Replace(arg, "@postgres/", fmt.Sprintf("@127.0.0.1:%d/", u.server.Port), 1)
		}
	}
	args = strings.Split(strings.Join(append(args, more...), "\x00"), "\x00")
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=")
	for name, value := range s.Environment {
		command.Env = append(command.Env, name+"="+*value)
	}
	return command
}

// seed returns the path of the seed with the port of the simulated servers.
func (u *up) seed() string {
	u.t.Helper()
	text := string(must[[]byte](u.t)(os.ReadFile("../compose/seed.sql")))
	if !strings.Contains(text, "'ws://echo:2700'") {
		u.t.Fatal("seed.sql does not name ws://echo:2700")
	}
	path := u.t.TempDir() + "/seed.sql"
	if err := os.WriteFile(path, []byte(strings.Replace(text, ":2700", ":"+u.port, 1)), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

var (
	clientsAt = regexp.MustCompile(`msg=listening address=(\S+)`)
	adminAt   = regexp.MustCompile(`msg="admin API" address=(http\S+)`)
)

// TestComposeRuns starts what compose.yaml starts, in its order, against a real PostgreSQL: clients are served by all servers behind the
// one name. A second start keeps what was changed in between.
func TestComposeRuns(t *testing.T) {
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed")
	}
	server, err := pgtest.New()
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	must[*pgtest.Server](t)(server, err)
	t.Cleanup(server.Remove)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	psql := func(database, statement string) string {
		t.Helper()
		out, err := exec.Command("psql", server.DSN(database), "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command="+statement).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", statement, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// As the image of PostgreSQL does it: the role is a superuser.
	p := project(t)
	environment := p.Services["postgres"].Environment
	psql("postgres", fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", *environment["POSTGRES_USER"], *environment["POSTGRES_PASSWORD"]))
	psql("postgres", fmt.Sprintf("CREATE DATABASE %s OWNER %s", *environment["POSTGRES_DB"], *environment["POSTGRES_USER"]))

	u := &up{t: t, project: p, program: must[string](t)(wsbouncer()), server: server}
	u.startServers()
	u.run("migrate")
	u.run("seed")
	first := u.serve()

	second := u.command(t.Context(), "proxy").Env
	change := exec.Command(u.program, "backend", "set", "echo", "--connections", "12", "--admin", first.admin)
	change.Env = second
	if out, err := change.CombinedOutput(); err != nil {
		t.Fatalf("backend set: %v\n%s", err, out)
	}
	first.stop()
	u.run("migrate") // a second `up`
	u.run("seed")
	if got := psql("wsbouncer", "SELECT connections FROM wsbouncer.backends"); got != "12" {
		t.Errorf("after a second start, connections is %s: want 12, as it was set", got)
	}
	if got := psql("wsbouncer", "SELECT count(*) FROM wsbouncer.revisions"); got != "2" {
		t.Errorf("the history has %s versions: want 2", got)
	}
	u.serve().stop()
}

// startServers starts as many servers as compose.yaml, on one port of different addresses, and a DNS server that knows them.
func (u *up) startServers() {
	u.t.Helper()
	var addresses []net.IP
	port := "0"
	for i := range *u.project.Services["echo"].Scale {
		at := fmt.Sprintf("127.0.0.%d", i+1)
		s := must[*sim.Server](u.t)(sim.Start(sim.Options{Listen: net.JoinHostPort(at, port), Sessions: 16}))
		u.t.Cleanup(s.Close)
		_, port, _ = net.SplitHostPort(strings.TrimPrefix(s.URL(), "ws://"))
		addresses = append(addresses, net.ParseIP(at))
	}
	u.port = port
	conn := must[net.PacketConn](u.t)(net.ListenPacket("udp", "127.0.0.1:0"))
	ns := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		for _, question := range q.Question {
			if question.Name == "echo." && question.Qtype == dns.TypeA {
				for _, a := range addresses {
					m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "echo.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: a})
				}
			}
		}
		_ = w.WriteMsg(m)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = ns.ActivateAndServe() // it ends when it is shut down
	}()
	u.t.Cleanup(func() {
		_ = ns.Shutdown()
		<-ended
	})
	u.dns = conn.LocalAddr().String()
}

// proxy is a proxy that serves clients.
type proxy struct {
	u       *up
	process *kit.Process
	admin   string
}

// serve starts the proxy and lets clients have sessions on all servers.
func (u *up) serve() *proxy {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	output := new(kit.Output)
	// Later flags win, but for --listen, which is a list: its port is that of compose.yaml otherwise.
	command := u.command(u.t.Context(), "proxy", "--admin=127.0.0.1:0", "--state-directory="+u.t.TempDir(), "--dns-server="+u.dns)
	for i, arg := range command.Args {
		if strings.HasPrefix(arg, "--listen=") {
			command.Args[i] = "--listen=127.0.0.1:0"
		}
	}
	command.Stderr = output
	process := must[*kit.Process](u.t)(kit.Start("proxy", command))
	u.t.Cleanup(process.Kill)
	p := &proxy{u: u, process: process}
	clients := must[string](u.t)(process.Await(ctx, output, clientsAt))
	p.admin = must[string](u.t)(process.Await(ctx, output, adminAt))
	api := kit.NewAdmin(p.admin)
	if token := u.project.Services["proxy"].Environment["WSBOUNCER_ADMIN_TOKEN"]; token != nil {
		api.Token = *token
	}
	err := process.Until(ctx, "all servers are members", func() (bool, error) {
		s, err := api.Stats(ctx)
		if err != nil {
			return false, err
		}
		ready := 0
		for _, b := range s.Backends {
			if b.Idle > 0 {
				ready++
			}
		}
		return ready == *u.project.Services["echo"].Scale, nil
	})
	if err != nil {
		u.t.Fatalf("%v\n%s", err, strings.Join(output.Lines(), "\n"))
	}
	load := u.command(ctx, "clients", "--duration=2s", "--session-length=500ms")
	load.Args = slices.DeleteFunc(load.Args, func(arg string) bool { return arg == "--duration=1h" || arg == "--session-length=10s" })
	for i, arg := range load.Args {
		load.Args[i] = strings.Replace(arg, "ws://proxy:8080", "ws://"+clients, 1)
	}
	if out, err := load.CombinedOutput(); err != nil {
		u.t.Errorf("clients: %v\n%s", err, out)
	}
	return p
}

func (p *proxy) stop() {
	p.u.t.Helper()
	kit.StopAll(p.process)
	if status := p.process.State().ExitCode(); status != 0 {
		p.u.t.Errorf("the proxy ended with status %d", status)
	}
}
