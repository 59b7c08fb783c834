//go:build linux

package upgradeproof

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

const token = "0123456789abcdef"

// byHand is a proxy that a test starts and replaces by itself.
type byHand struct {
	t         *testing.T
	directory string
	listen    string
	output    *kit.Output
}

// begin starts the first process with a token.
func begin(t *testing.T) (*byHand, *kit.Process) {
	t.Helper()
	server, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	h := &byHand{t: t, directory: t.TempDir(), output: new(kit.Output)}
	text := []byte(configuration([]*sim.Server{server}, 4, 2))
	if err := os.WriteFile(filepath.Join(h.directory, "services.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.listen = "127.0.0.1:0"
	first := h.serve("WSBOUNCER_ADMIN_TOKEN=" + token)
	if h.listen, err = first.Await(t.Context(), h.output, kit.Listening); err != nil {
		t.Fatal(err)
	}
	return h, first
}

// serve starts a process with further variables and arguments.
func (h *byHand) serve(variable string, arguments ...string) *kit.Process {
	h.t.Helper()
	command := exec.Command(program, append([]string{
		"serve", "--listen", h.listen, "--database", filepath.Join(h.directory, "services.yaml"), "--state-directory", filepath.Join(h.directory, "state"),
	}, arguments...)...)
	command.Env = append(os.Environ(), variable)
	command.Stdout, command.Stderr = h.output, h.output
	p, err := kit.Start("wsbouncer", command)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(p.Kill)
	return p
}

// expect waits for a line of the processes' output, as long as the process lives.
func (h *byHand) expect(p *kit.Process, what string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), kit.StartTimeout)
	defer cancel()
	if _, err := p.Await(ctx, h.output, regexp.MustCompile("("+regexp.QuoteMeta(what)+")")); err != nil {
		h.t.Fatalf("no line says %q: %v\n%s", what, err, strings.Join(h.output.Lines(), "\n"))
	}
}

// ended waits until a process has ended, with a status.
func (h *byHand) ended(p *kit.Process, status int) {
	h.t.Helper()
	if !p.Wait(kit.StartTimeout) || p.State().ExitCode() != status {
		h.t.Fatalf("process %d: %v; want status %d\n%s", p.PID(), p.State(), status, strings.Join(h.output.Lines(), "\n"))
	}
}

// A process that is started by hand takes over with the token, and not without it. A session continues meanwhile.
func TestTakeOverByHand(t *testing.T) {
	h, first := begin(t)
	c := newClients("ws://"+h.listen+"/echo", kit.NewJournal(t.Output()))
	leave := c.stay(t.Context(), 1)
	admin := kit.NewAdmin(filepath.Join(h.directory, "state", "admin.sock"))
	admin.Token = token
	wstest.Eventually(t, "the session has begun", func() bool {
		stats, err := admin.Stats(t.Context())
		return err == nil && stats.Sessions.Active == 1
	})
	h.ended(h.serve("WSBOUNCER_ADMIN_TOKEN=wrong-wrong-wrong", "--take-over"), 1)
	h.expect(first, "wrong token for the admin API")
	h.expect(first, "action=login") // the audit log
	h.ended(h.serve("X=1", "--take-over"), 1)
	h.expect(first, "needs a token")
	h.expect(first, "action=take-over")
	other := t.TempDir() // another proxy's state directory
	h.ended(h.serve("WSBOUNCER_ADMIN_TOKEN="+token, "--take-over=unix:"+filepath.Join(h.directory, "state", "admin.sock"), "--state-directory", other), 1)
	h.expect(first, "another state directory")

	second := h.serve("WSBOUNCER_ADMIN_TOKEN="+token, "--take-over")
	h.expect(second, "another process has taken over")
	h.expect(second, `msg="taken over"`)
	c.once(t.Context()) // at the second process
	leave()             // the session at the first
	h.ended(first, 0)
	if err := c.journal.Err(); err != nil || len(c.taken) != 2 {
		t.Errorf("%d sessions, %v", len(c.taken), err)
	}

	// Without a running proxy, the flag changes nothing.
	if err := second.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	h.ended(second, 0)
	third := h.serve("WSBOUNCER_ADMIN_TOKEN="+token, "--take-over")
	h.expect(third, "no proxy runs that this one could take over from")
	if err := third.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	h.ended(third, 0)
}

// systemd opens sockets: those that the settings name are used, and others are an error that names them.
func TestSocketActivation(t *testing.T) {
	server, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	address := listener.Addr().String()
	_ = listener.Close() // the descriptor stays open
	start := func(listen string) (*kit.Process, *kit.Output) {
		command := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec "$@"`, "sh",
			program, "serve", "--listen", listen, "--backend", server.URL(), "--connections", "2")
		command.ExtraFiles = []*os.File{file}
		output := new(kit.Output)
		command.Stdout, command.Stderr = output, output
		p, err := kit.Start("wsbouncer", command)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p, output
	}
	p, output := start(address)
	ctx, cancel := context.WithTimeout(t.Context(), kit.StartTimeout)
	defer cancel()
	if at, err := p.Await(ctx, output, kit.Listening); err != nil || at != address {
		t.Fatalf("listening at %s, %v; want %s", at, err, address)
	}
	c := newClients("ws://"+address+"/", kit.NewJournal(t.Output()))
	if c.once(ctx); c.journal.Err() != nil || len(c.taken) != 1 {
		t.Errorf("%d sessions, %v", len(c.taken), c.journal.Err())
	}
	_ = p.Signal(os.Interrupt)
	if !p.Wait(kit.StartTimeout) {
		t.Error("the proxy does not end")
	}
	p, output = start("127.0.0.1:0")
	if !p.Wait(kit.StartTimeout) || p.State().ExitCode() != 1 {
		t.Errorf("a socket that no setting names: %v", p.State())
	}
	if text := strings.Join(output.Lines(), "\n"); !strings.Contains(text, "systemd opened "+address+" (web), which no setting names") {
		t.Errorf("the proxy said\n%s", text)
	}
}
