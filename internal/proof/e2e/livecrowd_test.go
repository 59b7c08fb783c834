//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// liveCrowd is clients that talk all the time, and check every answer. Some stay, others come and go.
type liveCrowd struct {
	t       *testing.T
	url     string
	stop    chan struct{}
	clients sync.WaitGroup
	echoes  atomic.Int64
	visits  atomic.Int64 // sessions that came and went
	turned  atomic.Int64 // clients that got no connection
	cut     atomic.Int64
}

// gather has n clients join, and returns when they have; visitors more come and go.
func gather(t *testing.T, p *proxy, path string, n, visitors int) *liveCrowd {
	t.Helper()
	c := &liveCrowd{t: t, url: p.url(path), stop: make(chan struct{})}
	var joining sync.WaitGroup
	turns := make(chan struct{}, 16)
	for i := range n {
		joining.Add(1)
		c.clients.Go(func() {
			turns <- struct{}{}
			client, err := tryRaw(t, c.url)
			for deadline := wstest.Deadline(); refusedWith(err) == http.StatusServiceUnavailable && time.Now().Before(deadline); {
				client, err = tryRaw(t, c.url) // its connection is dialed for it, which a busy machine may do late
			}
			<-turns
			joining.Done()
			if err != nil {
				c.lost("client %d could not join: %v", i, err)
				return
			}
			c.talk(client, i, -1)
		})
	}
	joining.Wait()
	for i := range visitors {
		c.clients.Go(func() { c.visit(n + i) })
	}
	return c
}

func (c *liveCrowd) lost(format string, args ...any) {
	if c.cut.Add(1) <= 10 {
		c.t.Errorf(format, args...)
	}
}

// talk sends a number of messages now and then or, if that is negative, sends until the crowd is to leave, checks their echoes,
// and leaves.
func (c *liveCrowd) talk(client *rawClient, number, messages int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; n != messages; n++ {
		select {
		case <-timer.C:
		case <-c.stop:
			messages = n + 1
		}
		_ = client.nc.SetDeadline(time.Now().Add(2 * wstest.Timeout))
		sent := message(number, n, 64)
		if err := client.trySend(ws.NewTextFrame(sent)); err != nil {
			c.lost("client %d was cut at message %d: %v", number, n, err)
			return
		}
		got, err := client.tryReceive()
		if err != nil || got.Header.OpCode != ws.OpText || string(got.Payload) != string(sent) {
			c.lost("client %d sent %q and got %v %.80q, %v", number, sent, got.Header.OpCode, got.Payload, err)
			return
		}
		c.echoes.Add(1)
		timer.Reset(500*time.Millisecond + rand.N(time.Second))
	}
	if err := client.trySend(closeFrame(1000, "")); err != nil {
		c.lost("client %d could not leave: %v", number, err)
		return
	}
	if got, err := client.tryReceive(); err != nil || got.Header.OpCode != ws.OpClose {
		c.lost("client %d left and got %v, %v", number, got.Header.OpCode, err)
	}
	_ = client.nc.Close()
}

// visit joins and leaves, again and again. There may be no connection for it.
func (c *liveCrowd) visit(number int) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		client, err := tryRaw(c.t, c.url)
		switch {
		case err == nil:
			c.talk(client, number, 2)
			c.visits.Add(1)
		case refusedWith(err) == http.StatusServiceUnavailable:
			c.turned.Add(1)
		default:
			c.lost("client %d was refused: %v", number, err)
			return
		}
	}
}

// leave has all leave, and returns when they have.
func (c *liveCrowd) leave() string {
	close(c.stop)
	c.clients.Wait()
	return fmt.Sprintf("%d echoes, %d sessions came and went, %d clients got no connection, %d sessions were cut",
		c.echoes.Load(), c.visits.Load(), c.turned.Load(), c.cut.Load())
}
