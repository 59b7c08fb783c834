//go:build linux && !portableloop

package load

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// pacer calls a function on a loop at a given time. It is a kernel timer whose descriptor is one more connection of the
// loop, and wakes the loop to within microseconds. The runtime's timers have a resolution of a millisecond while the process
// is idle, and need another goroutine to tell the loop. The loop's goroutine owns the pacer.
type pacer struct {
	timer int
	conn  *loop.Conn
	ring  func()
}

// start makes the pacer ready to call ring on the loop.
func (p *pacer) start(l *loop.Loop, ring func()) error {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("creating a timer: %w", err)
	}
	duplicate, err := unix.FcntlInt(uintptr(timer), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(timer)
		return fmt.Errorf("duplicating a timer: %w", err)
	}
	file := os.NewFile(uintptr(duplicate), "timer")
	socket, err := loop.Detach(timerConn{file: file})
	if err != nil {
		_ = file.Close()
		_ = unix.Close(timer)
		return err
	}
	p.timer, p.ring = timer, ring
	p.conn = l.Add(socket, p, nil)
	return nil
}

// set makes the pacer call the function after d. It replaces an earlier call of set.
func (p *pacer) set(d time.Duration) {
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	_ = unix.TimerfdSettime(p.timer, 0, &value, nil) // fails only for invalid times
}

// stop ends the pacer.
func (p *pacer) stop() {
	if p.conn != nil {
		p.conn.Close()
		_ = unix.Close(p.timer)
		p.conn = nil
	}
}

// Received implements loop.Handler: the timer has expired. The bytes say how often.
func (p *pacer) Received(_ *loop.Conn, b []byte) int {
	p.ring()
	return len(b)
}

// Flushed implements loop.Handler.
func (p *pacer) Flushed(*loop.Conn) {}

// Ended implements loop.Handler. A timer does not end.
func (p *pacer) Ended(*loop.Conn, error) {}

// timerConn makes a timer look like a connection, as far as loop.Detach needs it.
type timerConn struct {
	net.Conn
	file *os.File
}

// SyscallConn implements syscall.Conn.
func (t timerConn) SyscallConn() (syscall.RawConn, error) { return t.file.SyscallConn() }

// Close implements net.Conn.
func (t timerConn) Close() error { return t.file.Close() }
