// Package supervisor tells the service manager that started the process how it is doing: systemd, for a unit with Type=notify or
// Type=notify-reload, by the protocol of sd_notify(3). Without NOTIFY_SOCKET in the environment it does nothing.
//
// A [Supervisor] may be used from any goroutine.
package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Process is what the service manager hears about.
type Process interface {
	// Status says in one line what the process does. It must not wait for an event loop.
	Status() string
	// Responds returns nil as soon as each event loop has called a posted function, and an error that names one that has not when ctx
	// ends.
	Responds(ctx context.Context) error
}

const (
	// interval is how often the service manager gets the present status.
	interval = 10 * time.Second
	// extendEvery is how often a process that stops asks for more time. When the main process has ended, systemd begins TimeoutStopSec= anew for one that still
	// drains, whatever that has asked for before: only a TimeoutStopSec= longer than this leaves it its time.
	extendEvery = time.Second
	// extension is by how much each message during a drain extends the time after which systemd kills a process that is to stop.
	extension = 30 * time.Second
	// sendTimeout is how long a message may take. Only a service manager that hangs does not take it at once.
	sendTimeout = time.Second
)

// Supervisor is the service manager. A nil Supervisor is none.
type Supervisor struct {
	// Static after Connect.
	send     func(message string) error
	watchdog time.Duration // the service manager kills the process if it hears nothing for so long; 0 for no limit
	log      *slog.Logger
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	stopping context.Context // ends with Stopping
	stop     context.CancelFunc
	tasks    sync.WaitGroup // owned by who calls Ready and Close

	handedOver atomic.Bool // another process is the main one
	failed     atomic.Bool // a message could not be sent, and the log says so
}

// Connect returns the service manager that started the process, as the environment says; nil for none. An error in the environment is
// logged, and is no failure. Close ends it.
func Connect(log *slog.Logger) *Supervisor {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is off", "reason", err)
	}
	return connect(func(message string) error { return send(address, message, sendTimeout) }, watchdog, log)
}

func connect(send func(string) error, watchdog time.Duration, log *slog.Logger) *Supervisor {
	s := &Supervisor{send: send, watchdog: watchdog, log: log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// send sends one message to the socket, whose address begins with @ if it is in Linux's abstract namespace. (daemon.SdNotify does the
// same, but waits for as long as the service manager does not read.)
func send(address, message string, timeout time.Duration) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(timeout))
	_, err = conn.Write([]byte(message))
	return err
}

// tell sends a message, whose lines are assignments. The first one that cannot be sent is logged.
func (s *Supervisor) tell(lines ...string) {
	if err := s.send(strings.Join(lines, "\n")); err != nil && !s.failed.Swap(true) {
		s.log.Warn("cannot notify the service manager (NOTIFY_SOCKET)", "error", err)
	}
}

// status returns the assignment of a line of status.
func status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", "; ") }

// Starting tells what the process waits for before it is ready.
func (s *Supervisor) Starting(text string) {
	if s != nil {
		s.tell(status(text))
	}
}

// Ready tells that the process is ready, and reports its status from then on. Call it once, unless the process ends before it is ready.
func (s *Supervisor) Ready(p Process) {
	if s == nil {
		return
	}
	s.tell(daemon.SdNotifyReady, status(p.Status()))
	s.tasks.Go(func() { s.report(p) })
	if s.watchdog > 0 {
		s.tasks.Go(func() { s.watch(p) })
	}
}

// Reload calls f, which reads the settings again, and tells when it begins and when it has ended.
func (s *Supervisor) Reload(f func()) {
	if s == nil || s.stopping.Err() != nil || s.handedOver.Load() {
		f()
		return
	}
	s.tell(daemon.SdNotifyReloading, strings.TrimSuffix(daemon.SdNotifyMonotonicUsec(), "\n"))
	f()
	if s.stopping.Err() == nil {
		s.tell(daemon.SdNotifyReady)
	}
}

// TakeOver tells, before Ready, that this process is the service's main one from now on: it has taken over from the one that was.
func (s *Supervisor) TakeOver() {
	if s != nil {
		s.tell(mainPID(os.Getpid()))
	}
}

// unread takes signals that are to do nothing.
var unread = make(chan os.Signal, 1)

// HandOver tells that another process is the service's main one from now on. This one may still drain: of it, the service manager hears only
// that it needs more time to stop.
func (s *Supervisor) HandOver(pid int) {
	if s == nil {
		return
	}
	// systemd sends SIGTERM to all processes of a unit that is stopped, and once more to those that are left when the main one has ended: the
	// second must not end this one, as one by hand would.
	signal.Notify(unread, syscall.SIGTERM)
	s.handedOver.Store(true)
	s.tell(mainPID(pid)) // the other one says so itself, but a unit without NotifyAccess=all hears only this one
}

// mainPID is the assignment of the service's main process.
func mainPID(pid int) string { return fmt.Sprintf("MAINPID=%d", pid) }

// Stopping tells that the process begins to end, which may take as long as it responds.
func (s *Supervisor) Stopping() {
	if s == nil {
		return
	}
	s.stop()
	if s.handedOver.Load() {
		s.tell(extend) // the service may continue with its main process
		return
	}
	s.tell(daemon.SdNotifyStopping, extend)
}

// Close ends the goroutines of Ready.
func (s *Supervisor) Close() {
	if s != nil {
		s.cancel()
		s.tasks.Wait()
	}
}

// extend is the assignment that asks for more time to stop.
var extend = fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds())

// report tells the status when it has changed, until Close is called. While the process is stopping, it asks for more time for as long as
// the process responds: one that hangs is killed when the time is over that the unit grants (TimeoutStopSec=).
func (s *Supervisor) report(p Process) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	said, stops := "", s.stopping.Done()
	for {
		select {
		case <-stops:
			ticker.Reset(extendEvery)
			stops = nil
			continue
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		var lines []string
		if now := status(p.Status()); now != said && !s.handedOver.Load() {
			said = now
			lines = append(lines, now)
		}
		if s.stopping.Err() != nil {
			ctx, cancel := context.WithTimeout(s.ctx, interval) // a busy loop may take so long
			if p.Responds(ctx) == nil {
				lines = append(lines, extend)
			}
			cancel()
		}
		if len(lines) > 0 {
			s.tell(lines...)
		}
	}
}

// watch tells the service manager's watchdog that the process is alive, until it hands over or Close is called: twice in each period, when all event loops
// have answered. So a loop that answers within half of the period, however busy it is, does no harm, and one that hangs for longer than the
// period has the process restarted.
func (s *Supervisor) watch(p Process) {
	every := max(s.watchdog/2, time.Millisecond)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for hangs := false; ; {
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			return
		}
		if s.handedOver.Load() {
			return
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, every)
		err := p.Responds(ctx)
		cancel()
		switch {
		case err == nil:
			hangs = false
			s.tell(daemon.SdNotifyWatchdog)
		case s.ctx.Err() == nil && !hangs:
			hangs = true
			s.log.Error("the process hangs: the service manager's watchdog is not told that it is alive", "reason", err, "watchdog", s.watchdog)
		}
		timer.Reset(max(every-time.Since(asked), 0))
	}
}
