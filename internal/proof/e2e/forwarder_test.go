//go:build unix

package e2e

import (
	"net"
	"sync"
	"testing"
	"time"
)

// forwarder is a way to a server that can lead elsewhere, and be slow.
type forwarder struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string            // guarded by mu
	delay  time.Duration     // guarded by mu: of each piece, either way
	open   map[net.Conn]bool // guarded by mu
	closed bool              // guarded by mu
}

func startForwarder(t testing.TB, target string) *forwarder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{listener: listener, target: target, open: make(map[net.Conn]bool)}
	f.tasks.Go(f.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		f.cut()
		f.tasks.Wait()
	})
	return f
}

func (f *forwarder) address() string { return f.listener.Addr().String() }

// lead has connections lead to another server from now on, and cuts those that there are.
func (f *forwarder) lead(target string) {
	f.mu.Lock()
	f.target = target
	f.mu.Unlock()
	f.cut()
}

// slow delays each piece of what is sent, either way.
func (f *forwarder) slow(delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = delay
}

func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.open {
		_ = nc.Close()
	}
}

func (f *forwarder) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		target := f.target
		f.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		f.mu.Lock()
		f.open[client], f.open[server] = true, true
		if f.closed {
			_, _ = client.Close(), server.Close()
		}
		f.mu.Unlock()
		f.tasks.Go(func() { f.pass(client, server) })
		f.tasks.Go(func() { f.pass(server, client) })
	}
}

// pass passes on what from sends, and ends both when that ends.
func (f *forwarder) pass(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, from)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		f.mu.Lock()
		delay := f.delay
		f.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay) // it is what the network does
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
