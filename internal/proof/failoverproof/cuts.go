package failoverproof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Cut is how a client's connection breaks.
type Cut string

// The kinds. cuts has all.
const (
	// Reset and End: the connection is reset, or its stream ends, without a close frame.
	Reset Cut = "reset"
	End   Cut = "end"
	// BlackHole: nothing passes any more, and neither side is told. HalfOpen: nothing passes one way.
	BlackHole Cut = "black-hole"
	HalfOpen  Cut = "half-open"
	// MidFrame: the connection is reset after a few more bytes, one way or the other.
	MidFrame Cut = "mid-frame"
	// Resuming: the connection is reset, and the next one breaks in the handshake or while messages are sent again.
	Resuming Cut = "resuming"
	// TwoAtOnce: the connection is reset, and the client comes back over two at once.
	TwoAtOnce Cut = "two-at-once"
)

var cuts = [...]Cut{Reset, End, BlackHole, HalfOpen, MidFrame, Resuming, TwoAtOnce}

// unlimited is the limit of a way that is not cut.
const unlimited = -1

// limits are how many more bytes pass on a connection, up to the proxy and down to the client.
type limits struct {
	up, down int
	silent   bool // what follows does not arrive, and neither side is told; otherwise the connection is reset then
}

// wire is a client's connection, which can be cut. Any goroutine may cut it.
type wire struct {
	*net.TCPConn

	mu     sync.Mutex
	limits limits    // guarded by mu
	broke  time.Time // guarded by mu: when it was cut; zero for not yet
}

// limit cuts the connection after some more bytes.
func (w *wire) limit(l limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = l
	if l.silent && w.broke.IsZero() {
		w.broke = time.Now()
	}
}

// broken returns when the connection was cut; zero for not yet.
func (w *wire) broken() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broke
}

// end ends the connection, with a reset or as it comes.
func (w *wire) end(reset bool) {
	w.mu.Lock()
	if w.broke.IsZero() {
		w.broke = time.Now()
	}
	w.mu.Unlock()
	if reset {
		_ = w.SetLinger(0)
	}
	_ = w.Close()
}

// pass returns how many of n bytes pass a way, and whether the connection is to be reset behind them.
func (w *wire) pass(left *int, n int) (passes int, breaks bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *left == unlimited {
		return n, false
	}
	passes = min(n, *left)
	*left -= passes
	return passes, *left == 0 && !w.limits.silent
}

// Write implements [net.Conn]. What does not pass counts as written.
func (w *wire) Write(b []byte) (int, error) {
	n, breaks := w.pass(&w.limits.up, len(b))
	if n > 0 {
		if n, err := w.TCPConn.Write(b[:n]); err != nil {
			return n, err
		}
	}
	if breaks {
		w.end(true)
	}
	return len(b), nil
}

// Read implements [net.Conn].
func (w *wire) Read(b []byte) (int, error) {
	for {
		n, err := w.TCPConn.Read(b)
		n, breaks := w.pass(&w.limits.down, n)
		if breaks {
			w.end(true)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// cut cuts connections of clients until there were enough cuts, or the time is over.
func (r *proof) cut(ctx context.Context) {
	if r.o.Cuts == 0 {
		return
	}
	working, cancel := context.WithTimeout(ctx, r.o.Duration)
	defer cancel()
	dice := rand.New(rand.NewPCG(r.o.Seed, 1))
	every := r.o.Duration / time.Duration(r.o.Cuts)
	for n := range r.o.Cuts {
		kind := cuts[n%len(cuts)]
		if kit.Wait(working, kit.Between(dice, every*4/10, every*14/10)) != nil {
			return
		}
		r.mu.Lock()
		first := dice.IntN(max(1, len(r.clients)))
		for i := range r.clients {
			c := r.clients[(first+i)%len(r.clients)]
			if !c.cut(kind, dice) {
				continue
			}
			if r.report.Cuts == nil {
				r.report.Cuts = make(map[Cut]int)
			}
			r.report.Cuts[kind]++
			fmt.Fprintf(r.o.Log, "%s cut: %s of session %d\n", time.Now().Format("15:04:05.000"), kind, c.session)
			break
		}
		r.mu.Unlock()
	}
}

// cut cuts the client's connection. It returns false if it is cut already, or not there.
func (c *returning) cut(kind Cut, dice *rand.Rand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wire
	if w == nil || c.kind != "" || c.ended {
		return false
	}
	c.kind = kind
	up := dice.IntN(2) == 0
	oneWay := func(n int, silent bool) limits {
		if up {
			return limits{n, unlimited, silent}
		}
		return limits{unlimited, n, silent}
	}
	switch kind {
	case BlackHole:
		w.limit(limits{0, 0, true})
	case HalfOpen:
		w.limit(oneWay(0, true))
	case MidFrame:
		w.limit(oneWay(1+dice.IntN(1500), false))
	case Resuming:
		c.next = oneWay(dice.IntN(800), dice.IntN(2) == 0)
		w.end(true)
	default:
		w.end(kind != End)
	}
	return true
}
