package kit

import (
	"net"
	"sync"
	"time"
)

// Way is what a forwarder does with connections.
type Way int

// The ways.
const (
	Open    Way = iota // they lead to the target
	Hanging            // nothing that is sent arrives, and neither side is told; new connections are accepted
	Refused            // they are reset, also new ones
)

// Forwarder is the network to a server: it can lead elsewhere, be slow, hang, and break. Its methods may be called from any goroutine.
type Forwarder struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string                // guarded by mu
	way    Way                   // guarded by mu
	delay  time.Duration         // guarded by mu: of each piece, either way
	change chan struct{}         // guarded by mu: closed by the next change of way
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

// NewForwarder returns one that leads to a server. The caller closes it.
func NewForwarder(target string) (*Forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Forwarder{listener: listener, target: target, change: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	f.tasks.Go(f.accept)
	return f, nil
}

// Address returns where it listens.
func (f *Forwarder) Address() string { return f.listener.Addr().String() }

// Close resets all connections and waits for its goroutines.
func (f *Forwarder) Close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	f.dropAll()
	f.mu.Unlock()
	f.Become(Refused)
	f.tasks.Wait()
}

// Lead has new connections lead to another server, and resets those that there are.
func (f *Forwarder) Lead(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	f.dropAll()
}

// Become changes what happens to connections. What hung is sent when they lead to the target again, as after a time without a network.
func (f *Forwarder) Become(w Way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.way = w
	close(f.change)
	f.change = make(chan struct{})
	if w == Refused {
		f.dropAll()
	}
}

// Slow delays each piece of what is sent, either way.
func (f *Forwarder) Slow(delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = delay
}

// dropAll resets all connections. The caller holds mu.
func (f *Forwarder) dropAll() {
	for nc := range f.conns {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
	}
}

// passable waits while connections hang, and reports whether they lead to the target.
func (f *Forwarder) passable() bool {
	for {
		f.mu.Lock()
		w, change, closed := f.way, f.change, f.closed
		f.mu.Unlock()
		if w != Hanging || closed {
			return w == Open && !closed
		}
		<-change
	}
}

func (f *Forwarder) accept() {
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
func (f *Forwarder) keep(nc net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.way == Refused {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
		return false
	}
	f.conns[nc] = struct{}{}
	return true
}

func (f *Forwarder) drop(nc net.Conn) {
	_ = nc.Close()
	f.mu.Lock()
	delete(f.conns, nc)
	f.mu.Unlock()
}

// connect passes on what both sides of a connection send until one of them ends.
func (f *Forwarder) connect(client net.Conn) {
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
func (f *Forwarder) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		f.mu.Lock()
		delay := f.delay
		f.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay) // it is what the network does
		}
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
