//go:build linux

package fleetproof

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// socket is one TCP connection as the kernel of the side that accepted it sees it.
type socket struct {
	server netip.Addr // the address that was dialed
	source netip.AddrPort
	cookie uint64 // by which the kernel tells it from all others
	state  byte
}

// States of TCP, as in the kernel's include/net/tcp_states.h.
const (
	established = 1
	synReceived = 3
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8
	// newSynReceived is how the kernel keeps a connection whose handshake is not over. It tells of it as synReceived.
	newSynReceived = 12
)

// counts reports whether the connection counts against the server's cap: from the first packet of its handshake, so also while it waits in
// the server's accept queue, until the server's kernel has seen its end. A connection that the server has closed first (finWait1 and 2)
// counts until the proxy has closed it, too. One whose end the kernel has seen, and the server's application not yet (closeWait), does not.
func (s socket) counts() bool {
	switch s.state {
	case established, synReceived, finWait1, finWait2:
		return true
	}
	return false
}

// kernel asks the kernel for the sockets on one port, by sock_diag(7). One goroutine owns it.
type kernel struct {
	fd       int
	request  []byte
	buffer   []byte
	sequence uint32
}

// Sizes of the messages' parts, in bytes: nlmsghdr, inet_diag_req_v2 and the part of inet_diag_msg that is read.
const (
	headerSize  = 16
	requestSize = 56
	messageSize = 72
	// dumpSize is how much of an answer is read at a time.
	dumpSize = 256 << 10
)

func newKernel(port int) (*kernel, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("asking the kernel for sockets: %w", err)
	}
	k := &kernel{fd: fd, request: make([]byte, headerSize+requestSize), buffer: make([]byte, dumpSize)}
	native := binary.NativeEndian
	native.PutUint32(k.request[0:], uint32(len(k.request)))
	native.PutUint16(k.request[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(k.request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := k.request[headerSize:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	native.PutUint32(body[4:], 1<<established|1<<synReceived|1<<finWait1|1<<finWait2|1<<closeWait|1<<newSynReceived)
	binary.BigEndian.PutUint16(body[8:], uint16(port))
	return k, nil
}

func (k *kernel) close() { _ = unix.Close(k.fd) }

// sockets appends the sockets whose own port is that of the servers. The kernel walks through its table meanwhile: a connection that ended
// and one that began after it may both be in the list, although they never were at the same time. See [both].
func (k *kernel) sockets(all []socket) ([]socket, error) {
	k.sequence++
	binary.NativeEndian.PutUint32(k.request[8:], k.sequence)
	if err := unix.Sendto(k.fd, k.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return all, fmt.Errorf("asking the kernel for sockets: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(k.fd, k.buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("asking the kernel for sockets: %w", err)
		}
		var done bool
		if all, done, err = k.parse(k.buffer[:n], all); done || err != nil {
			return all, err
		}
	}
}

// parse reads one datagram of an answer. done says that it was the last.
func (k *kernel) parse(b []byte, all []socket) (_ []socket, done bool, err error) {
	native := binary.NativeEndian
	for len(b) >= headerSize {
		size, kind := int(native.Uint32(b)), native.Uint16(b[4:])
		if size < headerSize || size > len(b) {
			break
		}
		body := b[headerSize:size]
		switch {
		case native.Uint32(b[8:]) != k.sequence: // of an earlier request
		case kind == unix.NLMSG_DONE:
			return all, true, nil
		case kind == unix.NLMSG_ERROR:
			return all, true, fmt.Errorf("asking the kernel for sockets: %w", unix.Errno(-int32(native.Uint32(body))))
		case len(body) >= messageSize:
			all = append(all, socket{
				state:  body[1],
				cookie: native.Uint64(body[44:]),
				server: netip.AddrFrom4([4]byte(body[8:12])),
				source: netip.AddrPortFrom(netip.AddrFrom4([4]byte(body[24:28])), binary.BigEndian.Uint16(body[6:])),
			})
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return all, false, nil
}

// both returns the connections that count in two lists, of which the second was asked for after the first had come: all of them were there at
// the moment between.
func both(first, second []socket) (all []socket) {
	counted := make(map[uint64]bool, len(first))
	for _, s := range first {
		if s.counts() {
			counted[s.cookie] = true
		}
	}
	for _, s := range second {
		if s.counts() && counted[s.cookie] {
			all = append(all, s)
		}
	}
	return all
}
