package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// injection is a failure of a part of the calls of one kind. The kernel has done nothing then, so that only failures are here that it could report in that
// case. (After a true EAGAIN, epoll reports an event, and after an invented one it does not; and of epoll_ctl, the kernel refuses only what adds a
// descriptor.) Sends are cut short by clients that take little at a time.
type injection struct {
	call, result, when string // as strace's inject names them
	ends               bool   // sessions may end, or not begin
}

// relaying are calls of event loops, byRing those that io_uring adds, and connecting the others, after whose failures the proxy waits before it tries again.
var (
	relaying = []injection{
		{"epoll_pwait", "error=EINTR", "4+5", false},
		{"epoll_pwait", "retval=0", "4+5", false},
		{"recvfrom", "error=EINTR", "4+5", false},
		{"recvfrom", "error=ENOMEM", "4+5", true},
		{"read", "error=EINTR", "1+3", false},
		{"write", "error=EINTR", "1+3", false},
		{"sendto", "error=EINTR", "4+5", false},
		{"sendto", "error=ENOBUFS", "4+5", true},
	}
	byRing = []injection{
		{"io_uring_enter", "error=EINTR", "1+2", false},
		{"io_uring_enter", "error=ENOMEM", "1+2", false},
		{"io_uring_enter", "retval=0", "1+2", false},
	}
	connecting = []injection{
		{"accept4", "error=EINTR", "1+3", false},
		{"accept4", "error=ECONNABORTED", "1+3", false},
		{"accept4", "error=ENOBUFS", "1+9", true},
		{"setsockopt", "error=ENOBUFS", "1+5", true},
	}
)

// Whatever system call fails once in a while, what clients get is whole or ends with a reason, and nothing hangs.
func TestInjectedFailures(t *testing.T) {
	tracer, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(tracer, "-o", os.DevNull, "true").Run()
	}
	if err != nil {
		t.Skip("system calls cannot be made to fail, since strace does not work here:", err)
	}
	for ring, injections := range map[string][]injection{"on": append(byRing, relaying...), "off": append(relaying, connecting...)} {
		t.Run("io-uring "+ring, func(t *testing.T) {
			t.Parallel()
			p := startInjected(t, ring)
			for _, i := range injections {
				if !t.Run(i.call+" "+i.result, func(t *testing.T) {
					p.awaitIdle(t)
					failed := 0
					for try := 0; failed == 0 && try < 5; try++ { // a slow machine may have nothing to send together
						failed = p.inject(t, tracer, i, func() { p.hold(t, i.ends) })
					}
					if failed == 0 {
						t.Error("no call has failed")
					}
				}) {
					break
				}
			}
			p.awaitIdle(t)
			p.hold(t, false)
			p.settle(t)
		})
	}
}

// injected is a proxy in front of a server that answers with what it gets.
type injected struct {
	*kit.Proxy
	url, secured string
	client       *http.Client // trusts the proxy, and takes little at a time
}

// startInjected starts the proxy for the time of the test.
func startInjected(t *testing.T, ring string) *injected {
	t.Helper()
	server, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	directory := t.TempDir()
	certificate, err := stage.NewCertificate(directory, stage.Lifetime)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(certificate.File())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10) })
		return errors.Join(failed, err)
	}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: trusted}}
	t.Cleanup(transport.CloseIdleConnections)
	p := &injected{client: &http.Client{Transport: transport}}
	if p.Proxy, err = kit.NewProxy(binary, "proxy", directory); err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	p.url, p.secured = "ws://"+p.Listen, "wss://"+address
	if err := p.Serve("--backend", server.URL(), "--connections", "32", "--warm", "24", "--queue-timeout", "3s", "--io-uring", ring, "--tls-listen", address,
		"--tls-cert", certificate.File(), "--tls-key", certificate.KeyFile()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Log())
		}
		p.Kill()
	})
	if err := p.Answers(t.Context()); err != nil {
		if strings.Contains(p.Log(), "io_uring_setup") {
			t.Skip("the kernel has no io_uring:", err)
		}
		t.Fatal(err)
	}
	return p
}

// awaitIdle waits until sessions need not wait for connections.
func (p *injected) awaitIdle(t *testing.T) {
	t.Helper()
	if err := p.Until(t.Context(), "connections are idle", func() (bool, error) {
		stats, err := p.Stats(t.Context())
		return err == nil && stats.Backends[0].Idle >= 12, err
	}); err != nil {
		t.Fatal(err)
	}
}

// inject has a part of the proxy's calls fail while during runs. It returns how many.
func (p *injected) inject(t *testing.T, tracer string, i injection, during func()) int {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	command := exec.Command(tracer, "-f", "-o", log, "-p", strconv.Itoa(p.PID()), "-e", "trace="+i.call,
		"-e", "inject="+i.call+":"+i.result+":when="+i.when)
	output := new(kit.Output)
	command.Stderr = output
	traced, err := kit.Start("strace", command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := traced.Await(t.Context(), output, regexp.MustCompile("(attached)")); err != nil {
		traced.Kill()
		t.Skip("no process can be traced here:", err)
	}
	defer p.detach(t, traced, log)
	during()
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(calls, []byte("(INJECTED)"))
}

// detach ends strace while all threads of the proxy stand still and none is in a call: one that is in a call whose failure was invented would get ENOSYS.
func (p *injected) detach(t *testing.T, traced *kit.Process, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.StartTimeout)
	defer cancel()
	_ = p.Signal(syscall.SIGSTOP)
	if err := p.Until(ctx, "all threads have stopped", func() (bool, error) {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID()))
		calls, unread := os.ReadFile(log)
		return bytes.Count(calls, []byte("--- stopped by SIGSTOP ---")) == len(threads), errors.Join(err, unread)
	}); err != nil {
		t.Error(err)
	}
	_ = traced.Signal(syscall.SIGTERM)
	traced.Wait(kit.StartTimeout)
	_ = p.Signal(syscall.SIGCONT)
}

// hold holds sessions, with TLS and without. If none may end, all must come to their own end.
func (p *injected) hold(t *testing.T, mayEnd bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.StartTimeout)
	defer cancel()
	var clients sync.WaitGroup
	for n := range 6 {
		url := p.url
		if n%2 == 1 {
			url = p.secured
		}
		clients.Go(func() {
			for range 2 {
				err := p.converse(ctx, url, byte(n))
				if wrong := new(difference); errors.As(err, wrong) || ctx.Err() != nil || err != nil && !mayEnd {
					t.Errorf("client %d: %v", n, err)
				}
			}
		})
	}
	clients.Wait()
}

// difference is an error: a client has got something else than it has sent.
type difference struct{ got, want int }

func (d difference) Error() string {
	return fmt.Sprintf("got another message, of %d bytes, instead of one of %d", d.got, d.want)
}

// converse holds one session.
func (p *injected) converse(ctx context.Context, url string, seed byte) error {
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: p.client})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	var sent [][]byte
	for n := range 24 {
		size := 1 + 37*n
		if n%8 == 7 {
			size = 300 << 10 // more than the sockets take
		}
		sent = append(sent, wstest.Noise(seed+byte(n), size))
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer conn.CloseNow()
	writing.Go(func() {
		for _, message := range sent {
			if conn.Write(ctx, websocket.MessageBinary, message) != nil {
				return // reading fails, too
			}
		}
	})
	for _, want := range sent {
		_, got, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return difference{len(got), len(want)}
		}
	}
	return conn.Close(websocket.StatusNormalClosure, "")
}

// settle checks that all sessions have ended with a reason, and that the proxy is idle then.
func (p *injected) settle(t *testing.T) {
	t.Helper()
	if err := p.Until(t.Context(), "no session is left", func() (bool, error) {
		stats, err := p.Stats(t.Context())
		return err == nil && stats.Sessions.Active == 0, err
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.Log(), "client left without a close frame") { // no client does that
		t.Errorf("the reason of a session's end was lost: see %s", p.LogFile())
	}
	before := p.ProcessorTime()
	_ = kit.Wait(t.Context(), time.Second)
	if used := p.ProcessorTime() - before; used > 500*time.Millisecond {
		t.Errorf("an idle proxy has used %v in a second", used)
	}
}
