package follow

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// cut is what reading from a server says that has gone, over a connection from that port.
func cut(port int) error {
	return &net.OpError{
		Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
		Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432}, Err: syscall.ECONNRESET,
	}
}

// The same cause has the same words, whatever the local port was, and however the error is wrapped.
func TestStable(t *testing.T) {
	for _, c := range []struct {
		wrap func(error) error
		want string
	}{
		{func(err error) error { return err }, "read tcp 127.0.0.1:5432: connection reset by peer"},
		{func(err error) error { return fmt.Errorf("database: %w", err) }, "database: read tcp 127.0.0.1:5432: connection reset by peer"},
		{
			func(err error) error {
				return errors.Join(errors.New("one"), fmt.Errorf("two: %w", config.Unreachable(err)), cut(1))
			},
			"one\ntwo: read tcp 127.0.0.1:5432: connection reset by peer\nread tcp 127.0.0.1:5432: connection reset by peer",
		},
		{func(error) error { return errors.New("of another kind: 1->2") }, "of another kind: 1->2"},
	} {
		for _, port := range []int{53412, 2} {
			if got := stable(c.wrap(cut(port))); got != c.want {
				t.Errorf("%q; want %q", got, c.want)
			}
		}
	}
}

// Reasons that take turns are logged once each, and all ways in which a store cannot be reached are one; after it was well
// everything is new again.
func TestTurns(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		for outage := range 2 {
			for i := range 10 {
				for _, err := range []error{
					config.Unreachable(cut(50000 + i)), config.Unreachable(fmt.Errorf("refused, %d", i)), errors.New("version 2 is not valid"), cut(50000 + i),
				} {
					time.Sleep(time.Second)
					r.store.say(nil, err)
					r.soon("1", Stale, stable(err))
				}
			}
			if n := r.log.count(cannotFollow); n != 3*(outage+1) {
				t.Errorf("%d lines in the log after outage %d; there are three causes", n, outage+1)
			}
			time.Sleep(time.Second)
			r.store.say(snapshot(t, "1", 1), nil)
			r.soon("1", Current, "")
		}
	})
}

// What has lasted since a start by the copy is not reported again.
func TestCopiedOnce(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "7", 1), nil)
		r.mustStart()()
		r.store.say(nil, config.Unreachable(cut(1)))
		defer r.mustStart()()
		for i := range 10 {
			time.Sleep(time.Second)
			r.store.say(nil, config.Unreachable(cut(2+i)))
			r.expect("7", Copied, stable(cut(1)))
		}
		if begun, by := r.log.count(cannotFollow), r.log.count(byTheCopy); begun != 0 || by != 1 {
			t.Errorf("%d lines that it cannot be followed, %d that it goes by the copy", begun, by)
		}
	})
}

// Who has lost the configuration is told where the last good one is.
func TestWhatToDo(t *testing.T) {
	following(t, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		r.store.say(nil, fmt.Errorf("%w: c.db no longer exists", config.ErrMissing))
		synctest.Wait()
		want := "the configuration is missing: c.db no longer exists; restore it from a backup, or import the last good configuration: " +
			"wsbouncer config import " + r.file + " --with-tenants --database the store"
		if s := r.Status(); !strings.HasPrefix(s.Reason, want) {
			t.Errorf("the reason is %q; want %q", s.Reason, want)
		}
	})
}
