//go:build linux

package upgradeproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// patience is how long a client waits for its session, or for an answer.
	patience = 60 * time.Second
	// margin is how long before and after a hand-over a client is said to come around it.
	margin = time.Second
	// pace is the mean time between two messages of a session that lasts.
	pace = 500 * time.Millisecond
	// shown is how many failures are told one by one.
	shown = 20
)

// failure is how a session can go wrong.
type failure int

const (
	refused failure = iota // no connection, or an answer other than 101
	reset                  // the connection ended before the session began
	cut                    // the session ended before its client wanted that
	lost                   // a message did not come back, or another one did
	failures
)

// clients are all clients. Any goroutine may use them.
type clients struct {
	url      string
	dialer   websocket.Dialer
	begun    atomic.Int64
	messages atomic.Int64
	counts   [failures]atomic.Int64
	staying  sync.WaitGroup
	passing  sync.WaitGroup
	finish   chan struct{} // closed when those who stay are to leave

	mu    sync.Mutex
	taken []arrival // guarded by mu
	told  []error   // guarded by mu
	left  bool      // guarded by mu
}

// arrival is how long a client took to get its session.
type arrival struct {
	at   time.Time
	took time.Duration
}

func newClients(url string) *clients {
	return &clients{url: url, finish: make(chan struct{}), dialer: websocket.Dialer{HandshakeTimeout: patience, NetDialContext: (&net.Dialer{Timeout: patience}).DialContext}}
}

func (c *clients) fail(kind failure, format string, args ...any) {
	c.counts[kind].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) < shown {
		c.told = append(c.told, fmt.Errorf(format, args...))
	}
}

func (c *clients) count(kind failure) int64 { return c.counts[kind].Load() }

// failures returns the first failures.
func (c *clients) failures() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// begin gets a session; nil if that failed, which is counted.
func (c *clients) begin(ctx context.Context) *websocket.Conn {
	at := time.Now()
	conn, answer, err := c.dialer.DialContext(ctx, c.url, nil)
	took := time.Since(at)
	if err != nil {
		switch {
		case ctx.Err() != nil:
		case answer != nil:
			c.fail(refused, "a client got HTTP %s after %v", answer.Status, took)
		case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			c.fail(reset, "a client's connection ended after %v, before its session began: %w", took, err)
		default:
			c.fail(refused, "a client was refused after %v: %w", took, err)
		}
		return nil
	}
	c.begun.Add(1)
	c.mu.Lock()
	c.taken = append(c.taken, arrival{at, took})
	c.mu.Unlock()
	return conn
}

// exchange sends a message and expects it back. It returns false if the session has failed.
func (c *clients) exchange(conn *websocket.Conn, session int64, number int, age time.Time) bool {
	text := strconv.FormatInt(session, 10) + "/" + strconv.Itoa(number)
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.fail(cut, "a session of %v was cut: %w", time.Since(age), err)
		return false
	}
	_, got, err := conn.ReadMessage()
	switch {
	case errors.Is(err, syscall.ETIMEDOUT) || isTimeout(err):
		c.fail(lost, "message %s did not come back within %v", text, patience)
		return false
	case err != nil:
		c.fail(cut, "a session of %v was cut: %w", time.Since(age), err)
		return false
	case string(got) != text:
		c.fail(lost, "%q came back for %q", got, text)
		return false
	}
	c.messages.Add(1)
	return true
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// end closes a session in order.
func end(conn *websocket.Conn) {
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, _, _ = conn.ReadMessage()
	_ = conn.Close()
}

// stay begins sessions that last until leave is called, and returns when all have begun.
func (c *clients) stay(ctx context.Context, n int) error {
	const atOnce = 50
	turns := make(chan struct{}, atOnce)
	begun := make(chan bool, n)
	for i := range n {
		c.staying.Go(func() {
			turns <- struct{}{}
			conn := c.begin(ctx)
			<-turns
			begun <- conn != nil
			if conn == nil {
				return
			}
			defer end(conn)
			age := time.Now()
			for number := 0; c.exchange(conn, int64(i), number, age); number++ {
				select {
				case <-time.After(pace/2 + rand.N(pace)):
				case <-c.finish:
					return
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for range n {
		if !<-begun {
			return errors.Join(append(c.failures(), errors.New("not all sessions that are to last could begin"))...)
		}
	}
	return nil
}

// come has clients come at a rate, each of whom stays for up to three seconds, until the returned function is called, which waits until all have left.
func (c *clients) come(ctx context.Context, rate int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for number := int64(1e6); ; number++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			c.passing.Go(func() { c.pass(number) })
		}
	}()
	return func() {
		cancel()
		<-ended
		c.passing.Wait()
	}
}

// pass is a client who comes, says three things, and leaves.
func (c *clients) pass(session int64) {
	conn := c.begin(context.Background())
	if conn == nil {
		return
	}
	defer end(conn)
	age := time.Now()
	for number := range 3 {
		if !c.exchange(conn, session, number, age) {
			return
		}
		time.Sleep(rand.N(time.Second))
	}
}

// leave has those who stay leave.
func (c *clients) leave() {
	c.mu.Lock()
	if !c.left {
		c.left = true
		close(c.finish)
	}
	c.mu.Unlock()
	c.staying.Wait()
}

func (c *clients) close() { c.leave() }

// times returns how long clients took to get their sessions, sorted: those who came around hand-overs, and all others.
func (c *clients) times(upgrades []upgrade) (calm, around []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.taken {
		near := slices.ContainsFunc(upgrades, func(u upgrade) bool {
			return a.at.After(u.from.Add(-margin)) && a.at.Before(u.to.Add(margin))
		})
		if near {
			around = append(around, a.took)
		} else {
			calm = append(calm, a.took)
		}
	}
	slices.Sort(calm)
	slices.Sort(around)
	return calm, around
}

// quantile returns a quantile of sorted times, rounded.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}
