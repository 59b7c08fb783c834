package app

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
)

// inheritance is the listening sockets that the process has and those that it got at its start. It is owned by Start until that returns, and static
// after that.
type inheritance struct {
	open  []takeover.Socket // all that the process listens on, for its own successor
	given []takeover.Socket
	kept  []int // numbers of those given that are in use
}

// listen returns the listener for an address of the settings: one of those that the process was given, or a new one.
func (in *inheritance) listen(kind takeover.Kind, name string, open func() (net.Listener, error)) (net.Listener, error) {
	i := slices.IndexFunc(in.given, func(s takeover.Socket) bool { return s.Kind == kind && s.Name == name && !in.uses(s) })
	if i < 0 {
		i = slices.IndexFunc(in.given, func(s takeover.Socket) bool { return !in.uses(s) && leadsTo(name, kind, s.Listener.Addr()) })
	}
	if i >= 0 {
		in.kept = append(in.kept, i)
		in.open = append(in.open, takeover.Socket{Kind: kind, Name: name, Listener: in.given[i].Listener, Foreign: in.given[i].Foreign})
		return in.given[i].Listener, nil
	}
	listener, err := open()
	if err != nil {
		return nil, err
	}
	in.open = append(in.open, takeover.Socket{Kind: kind, Name: name, Listener: listener})
	return listener, nil
}

// uses reports whether a socket is in use already.
func (in *inheritance) uses(s takeover.Socket) bool {
	return slices.ContainsFunc(in.open, func(o takeover.Socket) bool { return o.Listener == s.Listener })
}

// unused returns the sockets that no address of the settings is for.
func (in *inheritance) unused() (all []takeover.Socket) {
	for i := range in.given {
		if !slices.Contains(in.kept, i) {
			all = append(all, in.given[i])
		}
	}
	return all
}

// listenTCP opens or inherits a listener for an address of the settings.
func (in *inheritance) listenTCP(kind takeover.Kind, address string) (net.Listener, error) {
	return in.listen(kind, address, func() (net.Listener, error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", kind, err)
		}
		return listener, nil
	})
}

// leadsTo reports whether a socket listens at an address of the settings. The kinds of sockets may differ: an address may speak TLS now
// that did not before.
func leadsTo(name string, kind takeover.Kind, at net.Addr) bool {
	if unix, ok := at.(*net.UnixAddr); ok {
		return kind == takeover.AdminSocket && unix.Name == name
	}
	tcp, ok := at.(*net.TCPAddr)
	if !ok || kind == takeover.AdminSocket {
		return false
	}
	want, err := net.ResolveTCPAddr("tcp", name)
	if err != nil || want.Port != tcp.Port {
		return false
	}
	if want.IP == nil { // ":8080": all addresses of all families that there are
		return tcp.IP.IsUnspecified()
	}
	return want.IP.Equal(tcp.IP) && want.Zone == tcp.Zone
}

// errStrangeSockets returns an error that names sockets that systemd opened and no setting names; nil for none.
func errStrangeSockets(sockets []takeover.Socket) error {
	var errs []error
	for _, s := range sockets {
		errs = append(errs, fmt.Errorf("systemd opened %s (%s), which no setting names: set listen, tls-listen, admin or admin-socket to this address, or take it out of the socket unit",
			s.Listener.Addr(), s.Name))
	}
	return errors.Join(errs...)
}
