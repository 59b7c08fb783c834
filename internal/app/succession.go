package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// succession is what the process knows of its successor. Any goroutine may use it.
type succession struct {
	taken chan struct{} // closed when a successor has taken over; static

	mu     sync.Mutex
	cancel context.CancelCauseFunc // guarded by mu: of the take-over under way; nil for none
	over   chan struct{}           // guarded by mu: closed when that has ended
	ended  bool                    // guarded by mu: no other one begins
	by     takeover.Process        // guarded by mu: who has taken over; the zero value for none
}

var errShutsDown = errors.New(api.ShutsDown)

// begin begins a take-over. The caller calls finish when it has ended, with who has taken over, or nil.
func (s *succession) begin(parent context.Context, timeout time.Duration) (ctx context.Context, finish func(by *takeover.Successor), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by.PID != 0:
		return nil, nil, admin.WrongState("process %d (version %s) has already taken over from this one", s.by.PID, s.by.Version)
	case s.ended:
		return nil, nil, admin.WrongState("the proxy shuts down")
	case s.cancel != nil:
		return nil, nil, admin.WrongState("another take-over is under way: try again when it has ended")
	}
	ctx, s.cancel = context.WithCancelCause(parent)
	ctx, stop := context.WithTimeout(ctx, timeout)
	over := make(chan struct{})
	s.over = over
	return ctx, func(by *takeover.Successor) {
		s.mu.Lock()
		defer s.mu.Unlock()
		stop()
		s.cancel(nil)
		s.cancel, s.over = nil, nil
		if by != nil {
			s.by, s.ended = by.Process, true
			close(s.taken)
		}
		close(over)
	}, nil
}

// end ends a take-over that is under way, and refuses others.
func (s *succession) end() {
	s.mu.Lock()
	s.ended = true
	over := s.over
	if s.cancel != nil {
		s.cancel(errShutsDown)
	}
	s.mu.Unlock()
	if over != nil {
		<-over
	}
}

// TakenOver returns a channel that is closed when another process has taken over: this one no longer accepts clients. Then call
// DrainTakenOver.
func (p *Proxy) TakenOver() <-chan struct{} { return p.succession.taken }

// Successor returns the process that has taken over; the zero value for none.
func (p *Proxy) Successor() takeover.Process {
	p.succession.mu.Lock()
	defer p.succession.mu.Unlock()
	return p.succession.by
}

// Itself returns what this process tells the other one in a take-over.
func (s *Settings) Itself(version string) takeover.Process {
	directory := s.StateDirectory
	if directory == "" && s.Database != "" {
		directory = s.Directory()
	}
	return takeover.Process{PID: os.Getpid(), Version: version, Instance: takeover.Instance(directory)}
}

// hand hands the sockets to the process at the other end of a connection. When it returns nil, that process has taken over.
func (p *Proxy) hand(ctx context.Context, nc *net.UnixConn, say func(string)) (*takeover.Successor, error) {
	successor, err := takeover.Hand(ctx, nc, &takeover.Offer{
		Self: p.settings.Itself(p.version), Sockets: p.inheritance.open, Step: say, Prepare: p.prepare,
	})
	if err != nil {
		p.closeApart()
		p.log.Error("no take-over: this process keeps its sockets", "reason", err)
		return nil, err
	}
	p.handOver(successor)
	p.Lend(successor.Conn)
	return successor, nil
}

// prepare prepares this process for a successor, which may lack something to serve: then this one continues if it can serve itself. Where a successor
// gets no places by a ledger, it may lack anything while this one has all places, which may be the cause.
func (p *Proxy) prepare(lacks string) error {
	if err := p.forgets(); err != nil {
		return err
	}
	isShared := p.fleet != nil && p.fleet.agent.Status().Mode != agent.Unshared
	if lacks != "" && p.servicesReady() == nil && (isShared || !p.services.UsesAllPlaces()) {
		return fmt.Errorf("upgrade canceled: the new process is not ready: %s", lacks)
	}
	return p.openApart()
}

// Lacks returns what this process lacks to serve in place of one that does: places, another reason why its services are not ready, or descriptors to
// accept clients. It is empty if it lacks nothing.
func (p *Proxy) Lacks() string {
	if places := p.lacksPlaces(); places != "" {
		return places
	}
	if err := p.unable(); err != nil {
		return strings.TrimPrefix(err.Error(), "not ready: ")
	}
	lacks := printable.Text(p.services.Lacks(p.live.Load().ReadyServices), maxTold) // of many services
	if short := p.descriptors.Dialing(); lacks != "" && short != nil {
		lacks += fmt.Sprintf(" (%s)", short)
	}
	return lacks
}

// lacksPlaces says why this process gets no places at servers from the ledger of its fleet, so that it cannot serve; empty if it can, or if it is for
// another reason that it cannot.
func (p *Proxy) lacksPlaces() string {
	if p.fleet == nil || p.Ready() == nil {
		return ""
	}
	if s := p.fleet.agent.Status(); s.Mode == agent.Waiting || s.Mode != agent.Unshared && (s.Frozen || s.Problem != "") {
		return s.Line()
	}
	return ""
}

const (
	// warmInterval is the time between two looks at the pools, and warmCalm how many of them must show the same.
	warmInterval = 50 * time.Millisecond
	warmCalm     = 5
)

// Warm waits until the pools have grown as far as they do now, but no longer than limit: each service that keeps connections ready has one, unless
// the proxy that serves needs all places, and nothing is dialed. It returns in words what there is.
func (p *Proxy) Warm(ctx context.Context, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for before, calm := -1, 0; ; {
		var s api.Stats
		p.services.Stats(&s)
		idle, dialing := 0, 0
		have := make(map[string]int) // idle connections by service
		for i := range s.Backends {
			b := &s.Backends[i]
			idle, dialing = idle+b.Idle, dialing+b.Dialing
			have[b.Service] += b.Idle
		}
		if calm++; idle != before || dialing > 0 {
			before, calm = idle, 0
		}
		cold := p.cold(have)
		text := fmt.Sprintf("configuration version %s, idle connections: %d", p.follower.Status().Version, idle)
		if calm >= warmCalm && len(cold) == 0 && p.Ready() == nil {
			return text
		}
		if tasks.Sleep(ctx, warmInterval) {
			continue
		}
		if ready := p.Ready(); ready != nil {
			return text + "; " + ready.Error()
		}
		if len(cold) > 0 {
			text += "; none of " + strings.Join(cold, ", ")
		}
		return text
	}
}

// cold returns the services that are to keep connections ready and have none, in order. have is how many each has.
func (p *Proxy) cold(have map[string]int) (names []string) {
	snapshot := p.services.Snapshot()
	draft, err := services.NewDraft(snapshot)
	if err != nil {
		return nil
	}
	_, ahead := draft.DescribeHandshakes()
	for name := range snapshot.Services() {
		wants := false
		for backend, b := range snapshot.Members(name) {
			wants = wants || ahead[backend] && b.Warm != 0 && b.State == pool.Enabled.String()
		}
		if wants && have[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// handOver stops to accept: a successor does that now. What has been accepted continues.
func (p *Proxy) handOver(to *takeover.Successor) {
	for i, s := range p.inheritance.open {
		if unix, ok := s.Listener.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(!to.Kept[i] && !s.Foreign) // the path is the successor's
		}
	}
	p.sessions.StopListening()
	p.problems.HandOver()
	p.history.release()
	p.retireAdmin()
	p.log.Info("another process has taken over", "pid", to.PID, "version", to.Version, "sessions", p.sessions.Active(), "arriving", p.sessions.Arriving())
}

// TakeOver hands the listening sockets to a process that was started by another program ('wsbouncer serve --take-over') and has connected to
// the admin socket. It returns who has taken over, in words.
func (p *Proxy) TakeOver(ctx context.Context, nc *net.UnixConn) (string, error) {
	ctx, finish, err := p.succession.begin(ctx, takeover.DefaultTimeout)
	if err != nil {
		takeover.Refuse(nc, err.Error())
		return "", err
	}
	successor, err := p.hand(ctx, nc, func(text string) { p.log.Info("take-over", "step", text) })
	finish(successor)
	if err != nil {
		return "", err
	}
	return successor.String(), nil
}

// Upgrade starts a successor, and hands the listening sockets to it. binary is the program; empty for the one that this process was
// started as, as it is on disk now. say hears each step. If it fails, the successor is gone and this process keeps serving.
func (p *Proxy) Upgrade(ctx context.Context, binary string, timeout time.Duration, say func(string)) (*takeover.Successor, error) {
	program := p.settings.Program
	if program == nil {
		return nil, admin.WrongState("this process was not started by 'wsbouncer serve', and cannot start its successor")
	}
	if err := takeover.Possible(); err != nil {
		return nil, admin.WrongState("%v", err)
	}
	if err := p.forgets(); err != nil {
		return nil, err
	}
	path, name, err := program.Find(binary)
	if err != nil {
		return nil, admin.BadRequest("binary: %v", err)
	}
	ctx, finish, err := p.succession.begin(ctx, timeout)
	if err != nil {
		return nil, err
	}
	successor, err := p.upgrade(ctx, path, name, func(text string) {
		p.log.Info("upgrade", "step", text)
		say(text)
	})
	finish(successor)
	return successor, err
}

func (p *Proxy) upgrade(ctx context.Context, path, name string, say func(string)) (*takeover.Successor, error) {
	program := p.settings.Program
	if err := program.Check(ctx, path, say); err != nil {
		return nil, err
	}
	child, err := program.Start(path, name)
	if err != nil {
		return nil, err
	}
	defer child.Close()
	say(fmt.Sprintf("%s is started as process %d", path, child.PID))
	successor, err := p.hand(ctx, child.Conn, say)
	if err != nil {
		child.End()
		return nil, err
	}
	return successor, nil
}

// DrainTakenOver lets what this process has accepted finish after another one has taken over: clients that arrived get their sessions, and
// sessions last as long as upgrade-drain-timeout says. The configuration is followed meanwhile, so that what operators change and end holds
// here, too. When ctx ends, the rest is as in Drain. It returns whether all sessions finished by themselves. Call it once, and then Close.
func (p *Proxy) DrainTakenOver(ctx context.Context) (clean bool) {
	p.succession.end()
	now := time.Now()
	p.end.Store(&ending{began: now, closed: now, handedOver: true})
	if p.acme != nil {
		p.acme.Close()
	}
	p.services.Release() // the successor needs the servers' places; for clients that wait here, connections are still dialed
	p.poke()
	eventually(ctx, func() bool {
		spread := p.end.Load().timetable(&p.live.Load().Settings).spread
		return p.sessions.Arriving() == 0 || !spread.IsZero() && !time.Now().Before(spread)
	})
	p.sessions.StopAccepting() // turns away who is still there
	return p.finish(ctx.Done())
}

// upgrades returns what the admin API does about successors.
func (p *Proxy) upgrades() admin.Upgrades {
	return admin.Upgrades{
		Upgrade: func(ctx context.Context, binary string, timeout time.Duration, say func(string)) (api.Upgraded, error) {
			if timeout == 0 {
				timeout = takeover.DefaultTimeout
			}
			successor, err := p.Upgrade(ctx, binary, timeout, say)
			if err != nil {
				return api.Upgraded{}, err
			}
			return api.Upgraded{PID: successor.PID, Version: successor.Version, Draining: p.OwnAddresses(), Sessions: int(p.sessions.Active())}, nil
		},
		TakeOver:  p.TakeOver,
		Supported: takeover.Supported,
	}
}
