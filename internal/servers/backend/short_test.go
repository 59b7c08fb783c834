package backend

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// What is short on this machine says nothing about the server.

// errShort returns how package net reports an error of a system call.
func errShort(call string, errno syscall.Errno) error {
	return fmt.Errorf("connecting: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, errno)})
}

// descriptors returns a book of descriptors of which a number is in use beside the connections of the fake's pool.
func (f *fake) descriptors(limit, others int) *machine.Descriptors {
	open := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.there - f.dialing
	}
	return machine.NewDescriptors(machine.Options{
		Limit: func() int { return limit }, Used: func() int { return others + open() },
		Connections: func() int64 { return int64(open()) }, Clients: func() int64 { return 0 },
		Shed: func(int) int { return 0 }, Log: slog.New(f.log),
	})
}

func TestShortMachineIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"descriptors": errShort("socket", syscall.EMFILE), "of the system": errShort("socket", syscall.ENFILE),
		"buffers": errShort("connect", syscall.ENOBUFS), "memory": errShort("connect", syscall.ENOMEM),
		"ports":            errShort("connect", syscall.EADDRNOTAVAIL),
		"ports when bound": errShort("bind", syscall.EADDRINUSE), "an address that is gone": errShort("bind", syscall.EADDRNOTAVAIL),
		"no address of the family": fmt.Errorf("dialing: %w", &machine.LocalError{What: "local addresses", Text: "none"}),
		"resolving":                &net.DNSError{Err: "dial udp 127.0.0.53:53: socket: too many open files", Name: "gpu-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, pool.Settings{Cap: 3, Warm: 3}, func(f *fake) {
				f.worker.descriptors = f.descriptors(1000, 0)
				f.set(func() { f.dial = func(context.Context) error { return err } })
			}, func(f *fake) {
				f.after(time.Minute)
				f.expect(0, 0)
				if s := f.pool.Stats(); s.Totals.DialFailed != 0 || !s.Usable {
					t.Errorf("the backend is blamed: %+v", s)
				}
				if h := f.report.get(); h.Circuit != health.Closed.String() || h.Reason != notDialed {
					t.Errorf("the backend is blamed: %+v", h)
				}
				if begun, _ := f.attempts(); len(begun) > 3*62 {
					t.Errorf("%d dials in a minute", len(begun))
				}
				f.log.expect(t, "WARN dialing fewer connections than wanted: ")
				f.accept(0)
				f.after(time.Minute)
				f.expect(3, 0)
				f.log.expect(t, "WARN dialing fewer connections than wanted: ", "INFO backend reachable", "INFO dialing as many connections as wanted again")
				f.worker.descriptors.Close()
			})
		})
	}
}

// Dialing leaves descriptors alone: those in reserve, and one for the client of each connection.
func TestDescriptorsAreKept(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 60, Warm: 60}, func(f *fake) {
		f.worker.descriptors = f.descriptors(64, 14)
		f.accept(time.Millisecond)
	}, func(f *fake) {
		f.after(time.Minute)
		s := f.pool.Stats()
		if left := 64 - 14 - s.Idle; s.Idle < 16 || left < s.Idle+8 {
			t.Errorf("%d connections are warm, which leaves %d descriptors", s.Idle, left)
		}
		if begun, peak := f.attempts(); len(begun) != s.Idle || peak > s.Idle {
			t.Errorf("%d dials for %d connections, %d at once", len(begun), s.Idle, peak)
		}
		f.log.expect(t, "WARN dialing fewer connections than wanted: ", "INFO backend reachable")
		f.worker.descriptors.Close()
	})
}

// A backend whose circuit is open is tried again when there is room.
func TestTrialWaitsForDescriptors(t *testing.T) {
	t.Parallel()
	var limit atomic.Int64
	limit.Store(1000)
	inBubble(t, pool.Settings{Cap: 2, Warm: 2}, func(f *fake) {
		f.worker.descriptors = machine.NewDescriptors(machine.Options{
			Limit: func() int { return int(limit.Load()) }, Used: func() int { return 50 },
			Connections: func() int64 { return 0 }, Clients: func() int64 { return 0 },
			Shed: func(int) int { return 0 }, Log: slog.New(f.log),
		})
		f.refuse(0)
	}, func(f *fake) {
		f.until("the circuit opens", func() bool { return f.report.get().Circuit == health.Open.String() })
		limit.Store(50)
		f.accept(0)
		before, _ := f.attempts()
		f.after(time.Minute)
		if after, _ := f.attempts(); len(after) != len(before) {
			t.Errorf("%d trials without a descriptor for them", len(after)-len(before))
		}
		f.worker.descriptors.Close()
	})
}
