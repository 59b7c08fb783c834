package supervisor

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Socket is a listening socket that the service manager has opened for the process (a socket unit of systemd).
type Socket struct {
	Name     string // FileDescriptorName= of the socket unit
	Listener net.Listener
}

// Sockets returns the sockets that the service manager has opened for this process (sd_listen_fds(3)); none if it has not. Each call but the
// first returns none. What is no listening socket of TCP or unix(7) is an error.
func Sockets() (all []Socket, err error) {
	var errs []error
	for _, file := range activation.Files(true) {
		listener, err := net.FileListener(file) // duplicates the descriptor
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err == nil && listener.Addr().Network() != "tcp" && listener.Addr().Network() != "unix" {
			err = fmt.Errorf("it listens at %s", listener.Addr().Network())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("systemd opened %s, which is no listening socket of TCP or unix: use ListenStream= in the socket unit (%w)", file.Name(), err))
			continue
		}
		all = append(all, Socket{file.Name(), listener})
	}
	if len(errs) > 0 {
		for _, s := range all {
			_ = s.Listener.Close()
		}
		return nil, errors.Join(errs...)
	}
	return all, nil
}
