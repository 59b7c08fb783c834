package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) {
	wrapped := func(errno syscall.Errno) error {
		return fmt.Errorf("accepting: %w", &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)})
	}
	for _, s := range shortages {
		if got := short(wrapped(s.errno)); got != s.what {
			t.Errorf("%v: short of %q; want %q", s.errno, got, s.what)
		}
	}
	own := fmt.Errorf("dialing: %w", &LocalError{What: "patience", Text: "none is left"})
	if what := short(own); what != "patience" || !Local(own) || Unaddressed(own) {
		t.Errorf("%v: short of %q", own, what)
	}
	gone := &net.OpError{Op: "dial", Err: os.NewSyscallError("bind", noAddress)}
	if what := short(gone); what != addresses || !Unaddressed(gone) || !Unaddressed(wrapped(noAddress)) || Unaddressed(wrapped(syscall.EMFILE)) {
		t.Errorf("%v: short of %q", gone, what)
	}
	for _, err := range []error{
		nil, io.EOF, errors.New("socket: too many open files"), wrapped(syscall.ECONNREFUSED), wrapped(syscall.ETIMEDOUT),
		&net.DNSError{Err: "no such host", Name: "gpu-1", IsNotFound: true},
	} {
		if Local(err) {
			t.Errorf("%v counts as a shortage", err)
		}
	}
}

// process is the process whose descriptors a test counts.
type process struct {
	limit, used          int
	connections, clients int64
	asked                []int // how many idle connections to close, each time
	log                  bytes.Buffer
}

func (p *process) book() *Descriptors {
	return NewDescriptors(Options{
		Limit: func() int { return p.limit }, Used: func() int { return p.used },
		Connections: func() int64 { return p.connections }, Clients: func() int64 { return p.clients },
		Shed: func(n int) int { p.asked = append(p.asked, n); return n }, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
}

func TestDialLeavesDescriptors(t *testing.T) {
	for _, c := range []struct {
		name    string
		process process
		ok      bool
	}{
		{"plenty", process{limit: 1000, used: 20}, true},
		{"the reserve begins", process{limit: 64, used: 64 - 8 - 3}, true},
		{"it has begun", process{limit: 64, used: 64 - 8 - 2}, false},
		{"idle connections need clients", process{limit: 64, used: 14 + 20, connections: 20}, false},
		{"those in use have them", process{limit: 64, used: 14 + 20, connections: 20, clients: 10}, true},
		{"no limit", process{limit: unlimited, used: unlimited}, true},
	} {
		d := c.process.book()
		done, ok := d.Dial(1)
		if ok != c.ok {
			t.Errorf("%s: %t", c.name, ok)
		}
		if ok {
			done()
			done()
		}
		if n := d.dialing.Load(); n != 0 {
			t.Errorf("%s: %d dials are left", c.name, n)
		}
	}
}

// Dials under way count, so that many at once do not take the reserve.
func TestDialsAtOnce(t *testing.T) {
	p := process{limit: 64, used: 20}
	d := p.book()
	var all []func()
	for {
		done, ok := d.Dial(1)
		if !ok {
			break
		}
		all = append(all, done)
	}
	if n := len(all); n != (64-20-8)/3 {
		t.Errorf("%d dials at once", n)
	}
	for _, done := range all {
		done()
	}
	if _, ok := d.Dial(1); !ok {
		t.Error("no dial is allowed after these have ended")
	}
}

// A server without connections gets one before others get more, and the server with the most has to give one up.
func TestServersWithoutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := process{limit: 64, used: 60}
		d := p.book()
		defer d.Close()
		shared := 0
		d.o.Share = func() { shared++ }
		for has := range 2 {
			if _, ok := d.Dial(has); ok {
				t.Fatalf("a dial is allowed to a server that has %d connections", has)
			}
		}
		d.Denied(5)
		if shared > 0 {
			t.Error("an idle connection was closed for a server that has connections")
		}
		d.Denied(0)
		if shared != 1 {
			t.Errorf("an idle connection was closed %d times", shared)
		}
		p.used = 40 // there is room
		if _, ok := d.Dial(5); ok {
			t.Error("a server that has connections got the room")
		}
		done, ok := d.Dial(0)
		if !ok {
			t.Fatal("the server without connections did not get the room")
		}
		done()
		time.Sleep(calm)
		if _, ok := d.Dial(5); !ok {
			t.Error("other servers get no more connections, although no server waits for room")
		}
	})
}

// A shortage is logged when it begins and when it ends, whatever fails in between.
func TestShortageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := process{limit: 64, used: 20}
		d := p.book()
		defer d.Close()
		if d.Failed(Accepting, io.EOF) || d.Accepting() != nil || p.log.Len() > 0 {
			t.Error("an ordinary failure counts as a shortage")
		}
		for range 100 {
			if !d.Failed(Accepting, syscall.EMFILE) {
				t.Fatal("not noticed")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err := d.Accepting(); err == nil || !strings.Contains(err.Error(), "out of file descriptors (the limit is 64)") {
			t.Errorf("reason: %v", err)
		}
		if _, ok := d.Dial(1); ok {
			t.Error("a server is dialed while clients cannot be accepted")
		}
		if n := len(p.asked); n != 100 || p.asked[0] < 4 {
			t.Errorf("asked %d times to close idle connections: %v", n, p.asked)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.Accepting() != nil {
			t.Error("the shortage is not over")
		}
		if _, ok := d.Dial(1); !ok {
			t.Error("no server is dialed")
		}
		lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "cannot accept clients") ||
			!strings.Contains(lines[1], "clients can be accepted again") || !strings.Contains(lines[1], "failed_attempts=100") {
			t.Errorf("log:\n%s", p.log.String())
		}
	})
}

// Closing connections does not free local ports for other servers, so none are closed.
func TestNothingIsClosedForDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := process{limit: 64, used: 20}
		d := p.book()
		defer d.Close()
		d.Failed(Dialing, syscall.EADDRNOTAVAIL)
		d.Denied(1)
		if len(p.asked) != 0 || d.Accepting() != nil || d.Dialing() == nil {
			t.Errorf("asked: %v; accepting: %v; dialing: %v", p.asked, d.Accepting(), d.Dialing())
		}
	})
}

func TestNilBook(t *testing.T) {
	var d *Descriptors
	done, ok := d.Dial(1)
	if !ok || d.Accepting() != nil || d.Dialing() != nil || !d.Failed(Dialing, syscall.EMFILE) || d.Failed(Dialing, io.EOF) {
		t.Error("a nil pointer limits something")
	}
	done()
	d.Close()
}
