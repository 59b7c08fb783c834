package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// In the siege restart there are no hostile clients: one of the crowd's three servers, two of which have room for all sessions, dies and comes back. Only
// its own sessions end, it has all its connections again within one backoff, and it gets clients again.

const (
	// restartServers is how many servers the crowd has.
	restartServers = 3
	// restartLength is how long that siege takes at least, and away how long the server is dead.
	restartLength = 40 * time.Second
	away          = 8 * time.Second
	// backoff is the longest pause between two attempts to dial a server that does not answer (internal/servers/backend), and a little more, in which
	// connections are dialed.
	backoff = 17 * time.Second
)

// restart is what a siege's servers were seen to do. The goroutine in which they die owns it until the siege has ended.
type restart struct {
	servers  []*healthyServer
	cap      int
	returned time.Duration // from the server's return until it had all its connections
	leased   uint64        // how many sessions it had had by then
	err      error         // why it has not got them
}

// happen kills the last server, starts it again, and waits until it has all its connections.
func (r *restart) happen(ctx context.Context, p *proxy) {
	victim := r.servers[len(r.servers)-1].sim
	victim.Kill()
	if kit.Wait(ctx, away) != nil {
		r.err = errors.New("the siege was over before the server came back")
		return
	}
	r.err = victim.Revive()
	if r.err != nil {
		return
	}
	back := time.Now()
	r.err = p.Until(ctx, "the server has all its connections", func() (bool, error) {
		stats, err := p.Stats(ctx)
		if err != nil {
			return false, err
		}
		b := backendAt(stats, victim.URL())
		r.returned, r.leased = time.Since(back), b.Totals.Leased
		return b.Usable && b.Idle == min(b.Warm, b.Cap-b.Leased) && b.Idle+b.Leased == b.Used(), nil
	})
}

// backendAt returns a backend by its URL.
func backendAt(stats *api.Stats, url string) (b api.Backend) {
	for i := range stats.Backends {
		if stats.Backends[i].URL == url {
			b = stats.Backends[i]
		}
	}
	return b
}

// cameBack judges it.
func cameBack(o *outcome) error {
	r, ended := o.restart, uint64(0)
	for _, n := range o.ended {
		ended += n
	}
	wrong := []error{r.err}
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	for i, s := range r.servers {
		b := backendAt(o.last, s.sim.URL())
		if peak := s.sim.Stats().Peak; peak > r.cap {
			claim(false, "server %d had %d connections; its cap is %d", i+1, peak, r.cap)
		}
		claim(b.Totals.Leased == b.Totals.Returned+b.Totals.Discarded, "leases of server %d are left: %+v", i+1, b.Totals)
		if i < len(r.servers)-1 {
			claim(b.Broken+b.CircuitOpened+b.Totals.DialFailed == 0, "server %d, which lived, was harmed: %+v", i+1, b)
			continue
		}
		// Those who came for one echo may have been there as well.
		lost := uint64(o.load.Failed)
		claim(lost > 0 && lost <= b.Broken && b.Broken <= lost+comersAtOnce, "%d sessions failed, and the server that died had %d", lost, b.Broken)
		claim(o.ended[1011] == b.Broken, "%d sessions ended with 1011, and the server that died had %d", o.ended[1011], b.Broken)
		claim(r.returned <= backoff, "the server had all its connections %v after its return", r.returned)
		claim(b.Totals.Leased > r.leased, "the server gets no clients since its return")
	}
	claim(ended == o.last.Sessions.Total, "%d of %d sessions ended", ended, o.last.Sessions.Total)
	return errors.Join(wrong...)
}
