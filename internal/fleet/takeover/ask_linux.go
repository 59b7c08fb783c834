package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Ask asks the running process at the other end of a connection for its sockets. The connection belongs to the succession, which Fail and
// Serving end.
func Ask(ctx context.Context, nc *net.UnixConn, self Process) (*Succession, error) {
	s := &Succession{conn: &conn{nc}}
	stop := s.conn.until(ctx, 0)
	err := s.ask(&self)
	stop()
	if err != nil {
		s.Fail(err)
		return nil, err
	}
	return s, nil
}

func (s *Succession) ask(self *Process) error {
	if err := s.conn.send(introduction(hello, self), nil); err != nil {
		return ended(err)
	}
	m, err := s.conn.expect(welcome, nil)
	if err != nil {
		return err
	}
	if err := m.understood(); err != nil {
		return err
	}
	s.From = m.process()
	for range m.Sockets {
		if err := s.takeSocket(); err != nil {
			return err
		}
	}
	return nil
}

// takeSocket receives one socket.
func (s *Succession) takeSocket() error {
	m, file, err := s.conn.receive()
	switch {
	case err != nil:
		return ended(err)
	case m.Type == refused:
		return &RefusedError{m.Text}
	case m.Type != socket || file == nil:
		if file != nil {
			_ = file.Close()
		}
		return fmt.Errorf("the running process sent %q without a socket", m.Type)
	}
	listener, err := net.FileListener(file) // duplicates the descriptor
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("taking the socket of %s %s: %w", m.Kind, m.Name, err)
	}
	s.Sockets = append(s.Sockets, Socket{Kind: m.Kind, Name: m.Name, Listener: listener, Foreign: m.Foreign})
	return nil
}

// Step tells the running process, and the operator who waits there, what this one does now.
func (s *Succession) Step(text string) {
	if s == nil {
		return
	}
	_ = s.conn.nc.SetWriteDeadline(time.Now().Add(tellTimeout))
	_ = s.conn.send(&message{Type: step, Text: text}, nil) // Ready finds out if it is not received
	_ = s.conn.nc.SetWriteDeadline(time.Time{})
}

// Ready says that this process can serve, and waits until it may. Prepare everything before. lacks is as in [Offer]: the running process may continue
// because of it. If Ready returns an error, it does.
func (s *Succession) Ready(ctx context.Context, lacks string) error {
	defer s.conn.until(ctx, 0)()
	err := s.conn.send(&message{Type: ready, Text: lacks}, nil)
	if err == nil {
		_, err = s.conn.expect(yours, nil)
	}
	if err = ended(err); errors.Is(err, errGone) && hasEnded(s.From.PID) {
		s.Orphaned = true
		return nil
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// Serving says that this process accepts clients, and which of the sockets, by number, it continues with. An error says that no process has
// heard it. It ends the succession, and returns the connection to the process before, for what the two have to say to each other from now on.
// The caller closes it.
func (s *Succession) Serving(kept []int) (net.Conn, error) {
	_ = s.conn.nc.SetWriteDeadline(time.Now().Add(tellTimeout))
	err := s.conn.send(&message{Type: serving, Kept: kept}, nil)
	if err = ended(err); errors.Is(err, errGone) && hasEnded(s.From.PID) {
		return s.conn.nc, nil
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s.conn.nc, s.conn.nc.SetDeadline(time.Time{})
}

// Fail tells the running process why there is no take-over, and ends the succession. The sockets that were not taken are closed.
func (s *Succession) Fail(reason error) {
	if s == nil {
		return
	}
	if !errors.As(reason, new(*RefusedError)) {
		Refuse(s.conn.nc, reason.Error())
	}
	for i := range s.Sockets {
		_ = s.Sockets[i].Listener.Close()
	}
	s.close()
}

func (s *Succession) close() { _ = s.conn.nc.Close() }

// hasEnded reports whether a process that has closed its connection has ended, perhaps not yet to its parent's knowledge, or does within a second: the
// system closes its descriptors before.
func hasEnded(pid int) bool {
	if pid <= 0 {
		return true
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil { // the system may not permit that: then a process that still ends counts as one that lives
		return errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	}
	defer unix.Close(process)
	for deadline := time.Now().Add(time.Second); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(max(time.Until(deadline), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}
