package load

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// connectAll opens the connections of all clients, and returns when each dial has been started. It runs on a goroutine
// of its own, counted in r.dials.
func (r *run) connectAll(ctx context.Context, clients []*client) {
	for i, c := range clients {
		due := r.Ramp * time.Duration(i) / time.Duration(len(clients))
		if r.Ramp > 0 && !sleep(ctx, due-time.Duration(r.now())) {
			return
		}
		c.began = int64(due)
		if r.slots != nil {
			select {
			case r.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			// Waiting for a slot is the clients' own choice, not the server's slowness.
			c.began = r.now()
		}
		r.dials.Go(func() {
			r.dial(ctx, c)
			if r.slots != nil {
				<-r.slots
			}
		})
	}
}

// dial opens a client's connection and hands it to the client's loop.
func (r *run) dial(ctx context.Context, c *client) {
	socket, early, err := r.establish(ctx, c)
	connected := r.now()
	l := c.lane
	if err != nil {
		if ctx.Err() == nil { // else the run was ended, and nothing failed
			l.loop.Post(func() { l.refused(c, err) })
		}
		return
	}
	if !l.loop.Post(func() { l.admit(c, socket, early, connected) }) {
		socket.Close()
	}
}

// dialAgain opens another connection for a client whose last one has ended in order.
func (r *run) dialAgain(ctx context.Context, c *client) {
	r.dials.Go(func() {
		socket, early, err := r.establish(ctx, c)
		l := c.lane
		posted := l.loop.Post(func() {
			switch {
			case err == nil && l.closing:
				socket.Close()
			case err == nil:
				c.join(socket, early)
			case ctx.Err() != nil: // the run was ended, and nothing failed
				l.settle(c)
			default:
				c.fail("connect again: " + kind(err))
			}
		})
		if !posted && err == nil {
			socket.Close()
		}
	})
}

// establish opens a connection.
func (r *run) establish(ctx context.Context, c *client) (socket loop.Socket, early []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	established, err := c.target.Dial(ctx)
	if err != nil {
		return socket, nil, err
	}
	socket, err = loop.Detach(established.Conn)
	return socket, established.Early, err
}

// sleep waits, and returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// admit takes in a client that is connected since the given time.
func (l *lane) admit(c *client, socket loop.Socket, early []byte, since int64) {
	l.counts.Connected++
	l.counts.Connect.record(since - c.began)
	l.clients = append(l.clients, c)
	c.join(socket, early)
}

// refused counts a client that could not connect.
func (l *lane) refused(c *client, err error) {
	l.counts.ConnectFailures++
	l.counts.error("connect: " + kind(err))
	c.greet()
	l.alive.count()
}
