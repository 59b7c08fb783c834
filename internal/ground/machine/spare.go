package machine

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// spares is how many spare descriptors a listener holds: when no other is left, it can still have that many connections.
const spares = 4

// KeepDescriptors returns a listener that accepts connections even when the process has no descriptor left: it holds a few spare
// ones open, and closes one when it needs a descriptor. It opens spare ones again when a connection is closed.
func KeepDescriptors(l net.Listener) net.Listener {
	k := &keeper{Listener: l}
	k.fill()
	return k
}

// keeper is a listener with spare descriptors.
type keeper struct {
	net.Listener // static

	mu     sync.Mutex
	spare  []*os.File // guarded by mu
	closed bool       // guarded by mu
}

// Accept implements [net.Listener].
func (k *keeper) Accept() (net.Conn, error) {
	for {
		nc, err := k.Listener.Accept()
		if err == nil {
			return &kept{Conn: nc, by: k}, nil
		}
		if !Local(err) || !k.release() { // another goroutine may take the released descriptor first, so this is repeated
			return nil, err
		}
	}
}

// release closes a spare descriptor. It returns false when there is none.
func (k *keeper) release() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.spare)
	if n == 0 {
		return false
	}
	_ = k.spare[n-1].Close()
	k.spare = k.spare[:n-1]
	return true
}

// fill opens the spare descriptors that are missing, as far as it can.
func (k *keeper) fill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.closed && len(k.spare) < spares {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		k.spare = append(k.spare, file)
	}
}

// Close implements [net.Listener].
func (k *keeper) Close() error {
	k.mu.Lock()
	k.closed = true
	for _, file := range k.spare {
		_ = file.Close()
	}
	k.spare = nil
	k.mu.Unlock()
	return k.Listener.Close()
}

// kept is a connection that may have taken a spare descriptor's place.
type kept struct {
	net.Conn
	by *keeper
}

// CloseWrite ends the stream towards the peer, if the connection can.
func (c *kept) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn implements [syscall.Conn], so that an event loop can take the connection over.
func (c *kept) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// NetConn returns the connection itself, as that of [crypto/tls.Conn] does.
func (c *kept) NetConn() net.Conn { return c.Conn }

// Close implements [net.Conn].
func (c *kept) Close() error {
	err := c.Conn.Close()
	c.by.fill()
	return err
}
