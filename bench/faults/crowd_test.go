package faults

import (
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// crowd is the clients of a test.
type crowd struct {
	t       testing.TB
	address string

	clients []*client // those that are connected or were; of the test's goroutine only
	running sync.WaitGroup
}

func newCrowd(t testing.TB, address string) *crowd {
	c := &crowd{t: t, address: address}
	t.Cleanup(func() { // for a test that has failed
		for _, client := range c.clients {
			_ = client.nc.Close()
		}
		c.running.Wait()
	})
	return c
}

// dialingAtOnce is how many clients connect at a time.
const dialingAtOnce = 50

// join connects n more clients, and returns when each has had its first echo, or the end of its session.
func (c *crowd) join(n int) {
	c.t.Helper()
	c.greet(c.arrive(n, usualSize)...)
}

// greet waits until each of the clients has had its first echo, or the end of its session.
func (c *crowd) greet(clients ...*client) {
	c.t.Helper()
	for _, client := range clients {
		wstest.Eventually(c.t, "each client has its first echo", func() bool { return client.echoes.Load() > 0 || client.over() })
	}
}

// arrive connects n more clients, whatever becomes of them. Their first message has about size bytes.
func (c *crowd) arrive(n, size int) []*client {
	c.t.Helper()
	first, clients := len(c.clients), make([]*client, n)
	errs := make([]error, n)
	turn := make(chan struct{}, dialingAtOnce)
	var dialing sync.WaitGroup
	for i := range clients {
		turn <- struct{}{}
		dialing.Go(func() {
			clients[i], errs[i] = dialClient(c.address, first+i, size)
			<-turn
		})
	}
	dialing.Wait()
	for i, err := range errs {
		if err != nil {
			c.t.Errorf("client %d of %d could not connect: %v", i, n, err)
			continue
		}
		for _, earlier := range c.clients {
			if earlier.address() == clients[i].address() {
				clients[i].before++
			}
		}
		c.clients = append(c.clients, clients[i])
		c.running.Go(clients[i].run)
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
	return clients
}

// exchange waits until each of the clients has had n more echoes, or the end of its session.
func (c *crowd) exchange(n int64, clients ...*client) {
	c.t.Helper()
	want := make([]int64, len(clients))
	for i, client := range clients {
		want[i] = client.echoes.Load() + n
	}
	for i, client := range clients {
		wstest.Eventually(c.t, "each client has its echoes", func() bool { return client.echoes.Load() >= want[i] || client.over() })
	}
}

// leave has clients end their sessions, and returns when they have.
func (c *crowd) leave(clients ...*client) {
	c.t.Helper()
	for _, client := range clients {
		close(client.leave)
	}
	for _, client := range clients {
		wstest.Eventually(c.t, "the clients have left", client.over)
	}
}

// leaveAbruptly has clients end their sessions with a message that is not answered yet.
func (c *crowd) leaveAbruptly(clients ...*client) {
	c.t.Helper()
	for _, client := range clients {
		client.abrupt.Store(true)
	}
	c.leave(clients...)
}

// present returns the clients whose sessions continue.
func (c *crowd) present() []*client {
	var present []*client
	for _, client := range c.clients {
		if !client.over() {
			present = append(present, client)
		}
	}
	return present
}

// finish has all that are left end their sessions, and waits for everybody.
func (c *crowd) finish() {
	c.t.Helper()
	c.leave(c.present()...)
	c.running.Wait()
	for _, client := range c.clients {
		if client.wrong != nil {
			c.t.Errorf("client %d: %v", client.id, client.wrong)
		}
	}
}
