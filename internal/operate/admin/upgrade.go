package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Upgrades replace the running process by a successor. The functions may be called from any goroutine at any time. Their errors may be
// an [Error].
type Upgrades struct {
	// Upgrade starts a successor, and returns when that has taken over. say hears each step, and must not block. timeout is 0 for the default.
	Upgrade func(ctx context.Context, binary string, timeout time.Duration, say func(string)) (api.Upgraded, error)
	// TakeOver hands the listening sockets to the process at the other end of a connection, and returns who has taken over, in words.
	TakeOver func(ctx context.Context, nc *net.UnixConn) (string, error)
	// Supported returns nil if this system can do that.
	Supported func() error
}

func (s *Source) upgradeRoutes() []route {
	return []route{
		{path: api.UpgradePath, action: "upgrade", methods: methods{http.MethodPost: handled(s.serveUpgrade)}},
		{path: api.TakeOverPath, action: "take-over", methods: methods{http.MethodPost: handled(s.serveTakeOver)}},
	}
}

// serveUpgrade answers with a line for each step. An error before the first one is returned.
func (s *Source) serveUpgrade(w http.ResponseWriter, r *http.Request) error {
	var order api.UpgradeOrder
	if err := readWithOrder(w, r, &order, &order.Order); err != nil {
		return err
	}
	timeout := time.Duration(order.TimeoutSeconds * float64(time.Second))
	switch {
	case order.TimeoutSeconds < 0 || order.TimeoutSeconds > api.MaxUpgradeTime.Seconds():
		return BadRequest("timeout_seconds: invalid number %g: use 0 (the default, a minute) to %g", order.TimeoutSeconds, api.MaxUpgradeTime.Seconds())
	case strings.ContainsRune(order.Binary, 0):
		return BadRequest("binary: invalid path %q", cut(order.Binary))
	case order.Binary != "" && !FromOwnUser(r): // it could start the program itself
		return refused(http.StatusForbidden, "binary: who may change the proxy over the network may not run programs as its user: name a program over the admin socket, "+
			"as root or as the user of the proxy, or leave it out for the program that the proxy was started as")
	}
	if err := s.Upgrades.Supported(); err != nil {
		return WrongState("%v", err)
	}
	header := w.Header()
	answer := &stream{w: w, control: http.NewResponseController(w)}
	_ = answer.control.SetReadDeadline(time.Time{}) // that of [Limits.Request] would end the request's context
	began := false
	// The request waits for nothing but this, so one goroutine sends all lines.
	send := func(line *api.UpgradeStep) {
		if !began {
			began = true
			header.Set("Content-Type", "application/x-ndjson")
			header.Set("Cache-Control", "no-store")
			header.Set("X-Accel-Buffering", "no")
		}
		line.Time = time.Now().UTC()
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(line) == nil {
			_ = answer.send(b.Bytes()) // if the reader has gone, the request's context ends
		}
	}
	done, err := s.Upgrades.Upgrade(r.Context(), order.Binary, timeout, func(text string) { send(&api.UpgradeStep{Text: text}) })
	switch {
	case err == nil:
		s.Audit.Note(r, "upgrade", cut(order.Binary), order.Order, fmt.Sprintf("process %d, version %s, has taken over", done.PID, done.Version))
		send(&api.UpgradeStep{Done: &done})
	case !began && errors.As(err, new(*Error)):
		return err
	default:
		s.Audit.NoteFailure(r, "upgrade", cut(order.Binary), order.Order, err)
		send(&api.UpgradeStep{Error: err.Error()})
	}
	return nil
}

// serveTakeOver turns the request's connection into one between this process and its successor. An error before that is returned.
func (s *Source) serveTakeOver(w http.ResponseWriter, r *http.Request) error {
	if err := s.Upgrades.Supported(); err != nil {
		return BadRequest("%v", err)
	}
	if !isSocket(r) {
		return BadRequest("a take-over needs the admin socket, which carries file descriptors: start the new process on this machine")
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), api.TakeOverProtocol) {
		return BadRequest("a take-over begins with the header Upgrade: %s: use 'wsbouncer serve --take-over' of a version that knows it", api.TakeOverProtocol)
	}
	if uid, ok := peerOf(r); ok && !machine.IsOwnUser(uid) {
		return refused(http.StatusForbidden, "the process that asks for the sockets runs as uid %d: start it as the user of the running proxy", uid)
	}
	nc, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer nc.Close()
	unix, ok := secure.Under(nc).(*net.UnixConn)
	if !ok || buffered.Reader.Buffered() > 0 { // it may say nothing before it has the answer
		s.Audit.NoteFailure(r, "take-over", "", api.Order{}, errors.New("the caller does not speak the protocol"))
		return nil
	}
	_ = unix.SetDeadline(time.Now().Add(sendTimeout))
	if _, err := unix.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + api.TakeOverProtocol + "\r\n\r\n")); err != nil {
		return nil // it has gone
	}
	_ = unix.SetDeadline(time.Time{})
	// The request's context ends with the hijacked connection's handler only, so a successor that goes away is noticed by its connection.
	who, err := s.Upgrades.TakeOver(context.WithoutCancel(r.Context()), unix)
	if err != nil {
		s.Audit.NoteFailure(r, "take-over", "", api.Order{}, err)
		return nil
	}
	s.Audit.Note(r, "take-over", "", api.Order{}, who+", has taken over")
	return nil
}
