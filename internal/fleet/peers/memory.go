package peers

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
)

const (
	// maxRequest and maxProcess limit the memory that the answers of others take, for one request about the whole fleet and for all of them, in bytes.
	// With what is made of them, a request takes a few times as much.
	maxRequest = 32 << 20
	maxProcess = 64 << 20
	// perObject is what an object of an answer counts, beside its text: {} takes a few bytes there, and hundreds when it is decoded.
	perObject = 256
	// free bytes and freeObjects of each answer do not count, so that it is always known what came of an action.
	freeBytes   = 64 << 10
	freeObjects = 64
	// largeBytes is from where on an answer is read while no other one of the request is: otherwise many that are too large together would
	// all be read in part, and all be left out.
	largeBytes = 256 << 10
)

var errMemory = errors.New("its answer is left out, since all together take too much memory (32 MiB): ask for less, such as the sessions of one service, or ask it alone")

// memory is how many bytes are left. Its methods may be called from any goroutine.
type memory struct{ left atomic.Int64 }

func newMemory(size int64) *memory {
	m := new(memory)
	m.left.Store(size)
	return m
}

func (m *memory) take(n int64) bool {
	if m.left.Add(-n) >= 0 {
		return true
	}
	m.left.Add(n)
	return false
}

func (m *memory) give(n int64) { m.left.Add(n) }

// charge is the memory of one answer. One goroutine uses it at a time.
type charge struct {
	request, process *memory
	large            chan struct{} // of size one: who reads a large answer
	reads            bool          // this one does
	read, taken      int64
}

// take counts bytes of the answer that were read. It waits while another large answer is read, until ctx ends.
func (c *charge) take(ctx context.Context, n int) error {
	c.read += int64(n)
	if c.read > largeBytes && !c.reads {
		select {
		case c.large <- struct{}{}:
			c.reads = true
		case <-ctx.Done():
			return errMemory
		}
	}
	return c.add(c.read - freeBytes - c.taken)
}

// decoding counts what the answer takes when it is decoded.
func (c *charge) decoding(body []byte) error {
	return c.add(perObject * int64(bytes.Count(body, []byte("{"))-freeObjects))
}

func (c *charge) add(n int64) error {
	switch {
	case n <= 0:
		return nil
	case !c.request.take(n):
		return errMemory
	case !c.process.take(n):
		c.request.give(n)
		return errMemory
	}
	c.taken += n
	return nil
}

// done says that the answer was read, or that nothing will be read any more.
func (c *charge) done() {
	if c.reads {
		<-c.large
	}
	c.reads = false
}

// release gives the memory back.
func (c *charge) release() {
	if c.taken > 0 {
		c.request.give(c.taken)
		c.process.give(c.taken)
	}
	c.taken = 0
}
