package kit

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Socket is one TCP connection as the kernel of the side that accepted it sees it.
type Socket struct {
	Server netip.Addr // the address that was dialed
	Source netip.AddrPort
	State  byte
	cookie uint64 // by which the kernel tells it from all others
}

// States of TCP, as in the kernel's include/net/tcp_states.h.
const (
	Established = 1
	SynReceived = 3
	FinWait1    = 4
	FinWait2    = 5
	CloseWait   = 8
	// newSynReceived is how the kernel keeps a connection whose handshake is not over. It tells of it as SynReceived.
	newSynReceived = 12
)

// Counts reports whether the connection counts against the server's cap: from the first packet of its handshake, so also while it waits in
// the server's accept queue, until the server's kernel has seen its end. A connection that the server has closed first (FinWait1 and 2)
// counts until the proxy has closed it, too. One whose end the kernel has seen, and the server's application not yet (CloseWait), does not.
func (s Socket) Counts() bool {
	switch s.State {
	case Established, SynReceived, FinWait1, FinWait2:
		return true
	}
	return false
}

// Kernel asks the kernel for the sockets on one port, by sock_diag(7). One goroutine owns it.
type Kernel struct {
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

// NewKernel returns one for a port. The caller closes it.
func NewKernel(port int) (*Kernel, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("asking the kernel for sockets: %w", err)
	}
	k := &Kernel{fd: fd, request: make([]byte, headerSize+requestSize), buffer: make([]byte, dumpSize)}
	native := binary.NativeEndian
	native.PutUint32(k.request[0:], uint32(len(k.request)))
	native.PutUint16(k.request[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(k.request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := k.request[headerSize:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	native.PutUint32(body[4:], 1<<Established|1<<SynReceived|1<<FinWait1|1<<FinWait2|1<<CloseWait|1<<newSynReceived)
	binary.BigEndian.PutUint16(body[8:], uint16(port))
	return k, nil
}

// Close ends the questions.
func (k *Kernel) Close() { _ = unix.Close(k.fd) }

// Sockets appends the sockets whose own port is that of the servers. The kernel walks through its table meanwhile: a connection that ended
// and one that began after it may both be in the list, although they never were at the same time. See [Both].
func (k *Kernel) Sockets(all []Socket) ([]Socket, error) {
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
func (k *Kernel) parse(b []byte, all []Socket) (_ []Socket, done bool, err error) {
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
			all = append(all, Socket{
				State:  body[1],
				cookie: native.Uint64(body[44:]),
				Server: netip.AddrFrom4([4]byte(body[8:12])),
				Source: netip.AddrPortFrom(netip.AddrFrom4([4]byte(body[24:28])), binary.BigEndian.Uint16(body[6:])),
			})
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return all, false, nil
}

// Both returns the connections that count in two lists, of which the second was asked for after the first had come: all of them were there at
// the moment between.
func Both(first, second []Socket) (all []Socket) {
	counted := make(map[uint64]bool, len(first))
	for _, s := range first {
		if s.Counts() {
			counted[s.cookie] = true
		}
	}
	for _, s := range second {
		if s.Counts() && counted[s.cookie] {
			all = append(all, s)
		}
	}
	return all
}
