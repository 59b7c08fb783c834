package load

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// connectAll opens the connections of all clients with dial, and returns when each dial has begun. It runs on a goroutine of
// its own, which r.first counts.
func (r *run) connectAll(ctx context.Context, clients []*client, dial func(context.Context, *client)) {
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
			// The time to wait for a slot is the load's own choice, and says nothing about the server.
			c.began = r.now()
		}
		r.first.Go(func() {
			dial(ctx, c)
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
		if ctx.Err() == nil { // otherwise the run was ended, and nothing failed
			l.loop.Post(func() { l.refused(c, err) })
		}
		return
	}
	if !l.loop.Post(func() { l.admit(c, socket, early, connected) }) {
		socket.Close()
	}
}

// dialAgain opens another connection for a client whose last session has ended. Call it on the client's loop.
func (r *run) dialAgain(ctx context.Context, c *client) {
	c.again, c.outcome = true, pending
	c.counts().Begun++
	r.again.Go(func() {
		if r.slots != nil {
			select {
			case r.slots <- struct{}{}:
				defer func() { <-r.slots }()
			case <-ctx.Done():
			}
		}
		began := r.now()
		socket, early, err := r.establish(ctx, c)
		connected := r.now()
		posted := c.lane.loop.Post(func() {
			c.began, c.took = began, connected-began
			c.dialled(socket, early, err, ctx.Err() != nil)
		})
		if !posted && err == nil {
			socket.Close()
		}
	})
}

// dialled handles the result of dialAgain. over says that the run was ended meanwhile.
func (c *client) dialled(socket loop.Socket, early []byte, err error, over bool) {
	switch {
	case err == nil && c.lane.closing:
		socket.Close()
		c.setOutcome(cut)
	case err == nil:
		c.counts().ConnectAgain.record(c.took)
		c.join(socket, early)
	case over: // the run was ended, and nothing failed
		c.setOutcome(cut)
		c.lane.settle(c)
	default:
		c.talk.refused("connect again: " + kind(err))
	}
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
	if err != nil {
		_ = established.Conn.Close()
	}
	return socket, established.Early, err
}

// sleep waits for d. It returns false if ctx ended first.
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

// admit adds a connected client to the lane. since is when it was connected.
func (l *lane) admit(c *client, socket loop.Socket, early []byte, since int64) {
	counts := c.counts()
	counts.Begun++
	counts.Connected++
	counts.Connect.record(since - c.began)
	counts.LastConnect = max(counts.LastConnect, since)
	l.clients = append(l.clients, c)
	c.join(socket, early)
}

// refused counts a client that could not connect.
func (l *lane) refused(c *client, err error) {
	c.outcome = refused
	counts := c.counts()
	counts.Begun++
	counts.ConnectFailures++
	counts.error("connect: " + kind(err))
	c.markGreeted()
	if l.sessionLength > 0 {
		l.clients = append(l.clients, c) // it tries again
		return
	}
	l.alive.count()
}
