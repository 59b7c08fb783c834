//go:build linux

package fleetproof

import (
	"net"
	"sync"
)

// way is what a forwarder does with connections.
type way int

const (
	open    way = iota // they lead to the target
	hanging            // nothing that is sent arrives, and nobody is told; new connections are accepted
	refused            // they are reset, also new ones
)

// forwarder is the network between a proxy and PostgreSQL: it can lead elsewhere, hang, and break. Its methods may be called from any
// goroutine.
type forwarder struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string                // guarded by mu
	way    way                   // guarded by mu
	change chan struct{}         // guarded by mu: closed by the next change of way
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

func newForwarder(target string) (*forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: listener, target: target, change: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	f.tasks.Go(f.accept)
	return f, nil
}

func (f *forwarder) address() string { return f.listener.Addr().String() }

func (f *forwarder) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	f.dropAll()
	f.mu.Unlock()
	f.become(refused)
	f.tasks.Wait()
}

// lead has new connections lead to another server, and resets those that there are.
func (f *forwarder) lead(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	f.dropAll()
}

// become changes what happens to connections. What hung is sent when they lead to the target again, as after a time without a network.
func (f *forwarder) become(w way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.way = w
	close(f.change)
	f.change = make(chan struct{})
	if w == refused {
		f.dropAll()
	}
}

// dropAll resets all connections. The caller holds mu.
func (f *forwarder) dropAll() {
	for nc := range f.conns {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
	}
}

// passable waits while connections hang, and reports whether they lead to the target.
func (f *forwarder) passable() bool {
	for {
		f.mu.Lock()
		w, change, closed := f.way, f.change, f.closed
		f.mu.Unlock()
		if w != hanging || closed {
			return w == open && !closed
		}
		<-change
	}
}

func (f *forwarder) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		if f.keep(client) {
			f.tasks.Go(func() { f.connect(client) })
		}
	}
}

// keep keeps a connection, so that it can be reset. It reports false for one that is reset at once.
func (f *forwarder) keep(nc net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.way == refused {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
		return false
	}
	f.conns[nc] = struct{}{}
	return true
}

func (f *forwarder) drop(nc net.Conn) {
	_ = nc.Close()
	f.mu.Lock()
	delete(f.conns, nc)
	f.mu.Unlock()
}

// connect passes on what both sides of a connection send until one of them ends.
func (f *forwarder) connect(client net.Conn) {
	defer f.drop(client)
	if !f.passable() {
		return
	}
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.(*net.TCPConn).SetLinger(0)
		return
	}
	if !f.keep(server) {
		return
	}
	defer f.drop(server)
	var both sync.WaitGroup
	both.Go(func() { f.pass(client, server) })
	both.Go(func() { f.pass(server, client) })
	both.Wait()
}

// pass passes on what from sends, and ends both when that ends.
func (f *forwarder) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !f.passable() {
			return
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
