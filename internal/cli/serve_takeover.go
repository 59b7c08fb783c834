package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/app/supervisor"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

const (
	// takeOverFlag is the name of [takeover.Flag], and fromAdminSocket its value if none is given.
	takeOverFlag    = "take-over"
	fromAdminSocket = "admin-socket"
	// warmLimit is how long a process waits for its pools to be warm before it takes over: a server may be down, and all places may be in use.
	warmLimit = 5 * time.Second
	// lackLimit is how long it waits on for what it lacks to serve, such as a ledger that grants no places: after a restart of the database, it is a little
	// more than a lease time.
	lackLimit = 10 * time.Second
	// consentTimeout is how long the running process may take to say that its successor may accept clients.
	consentTimeout = 30 * time.Second
)

// heir is a process that is to take over from a running one. Its methods may be called on nil: there is none to take over from.
type heir struct {
	conn    *net.UnixConn // from a running process that has started this one; nil for none
	taken   *takeover.Succession
	version string
	log     *slog.Logger
}

// newHeir returns the heir for the value of the flag.
func newHeir(value, version string) (*heir, error) {
	if value == "" {
		return nil, nil
	}
	if value != fromAdminSocket && !strings.HasPrefix(value, "unix:") && !strings.HasPrefix(value, "fd:") {
		return nil, fmt.Errorf("%s: invalid value %q: use no value for the admin socket of these settings, or unix:/path/of/socket", takeover.Flag, value)
	}
	if err := takeover.Supported(); err != nil {
		return nil, fmt.Errorf("%s: %w", takeover.Flag, err)
	}
	nc, _, err := takeover.Connection(value)
	if err != nil {
		return nil, err
	}
	return &heir{conn: nc, version: version}, nil
}

// ask asks for the sockets, and puts them into the settings. It leaves them alone if no proxy runs.
func (h *heir) ask(ctx context.Context, value string, s *app.Settings, log *slog.Logger) error {
	if h == nil {
		return nil
	}
	h.log = log
	if h.conn == nil {
		if err := h.connect(ctx, value, s); err != nil || h.conn == nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	var err error
	if h.taken, err = takeover.Ask(ctx, h.conn, s.Itself(h.version)); err != nil {
		return fmt.Errorf("taking over from the running proxy: %w", err)
	}
	s.Inherited, s.Held = h.taken.Sockets, true
	log.Info("taking over", "from", h.taken.From.PID, "version", h.taken.From.Version, "sockets", len(s.Inherited))
	return nil
}

// connect connects to the admin socket of the running proxy. Without one, conn stays nil.
func (h *heir) connect(ctx context.Context, value string, s *app.Settings) error {
	path, ok := strings.CutPrefix(value, "unix:")
	if !ok {
		path = s.AdminSocket
	}
	if path == "" {
		return usageError(fmt.Errorf("%s needs the admin socket of the running proxy, and admin-socket is off: give %[1]s=unix:/path/of/socket", takeover.Flag))
	}
	proxy, err := client.New("unix:"+path, s.Token)
	if err != nil {
		return usageError(err)
	}
	defer proxy.Close()
	h.conn, err = proxy.TakeOver(ctx)
	if errors.As(err, new(*client.UnreachableError)) {
		h.log.Info("no proxy runs that this one could take over from", "socket", path, "reason", err)
		return nil
	}
	return err
}

// failed tells the running process why this one does not take over.
func (h *heir) failed(err error) {
	switch {
	case h == nil || err == nil:
	case h.taken != nil:
		h.taken.Fail(err)
	case h.conn != nil:
		takeover.Refuse(h.conn, err.Error())
		_ = h.conn.Close()
	}
}

// succeed takes over: it warms the pools, asks the running process whether this one may serve, and does so.
func (h *heir) succeed(ctx context.Context, proxy *app.Proxy) error {
	if h == nil || h.taken == nil {
		return nil
	}
	h.taken.Step(proxy.Warm(ctx, warmLimit))
	if lacks := proxy.Lacks(); lacks != "" {
		h.taken.Step("waiting until it can serve: " + lacks)
		h.taken.Step(proxy.Warm(ctx, lackLimit))
	}
	waiting, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	if err := h.taken.Ready(waiting, proxy.Lacks()); err != nil {
		return fmt.Errorf("not taken over from process %d, which keeps serving: %w", h.taken.From.PID, err)
	}
	proxy.Accept()
	before, err := h.taken.Serving(proxy.Kept())
	if err != nil {
		return fmt.Errorf("not taken over from process %d, which does not hear that this one serves: %w", h.taken.From.PID, err)
	}
	proxy.Lend(before)
	attributes := []any{"from", h.taken.From.PID, "version", h.taken.From.Version}
	if h.taken.Orphaned {
		h.log.Warn("taken over from a process that has ended meanwhile", attributes...)
	} else {
		h.log.Info("taken over", attributes...)
	}
	return nil
}

// took reports whether this process has taken over from another one, or is to.
func (h *heir) took() bool { return h != nil && h.taken != nil }

// program returns how this process was started. directory is where.
func program() *takeover.Program {
	if len(os.Args) < 2 || os.Args[1] != "serve" {
		return nil
	}
	directory, err := os.Getwd()
	if err != nil {
		return nil
	}
	return &takeover.Program{Path: os.Args[0], Arguments: os.Args[2:], Environment: os.Environ(), Directory: directory}
}

// inherit adds the sockets that systemd has opened for this process.
func inherit(s *app.Settings) error {
	sockets, err := supervisor.Sockets()
	if err != nil {
		return err
	}
	for _, socket := range sockets {
		s.Inherited = append(s.Inherited, takeover.Socket{Name: socket.Name, Listener: socket.Listener, Foreign: true})
	}
	return nil
}
