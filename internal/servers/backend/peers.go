package backend

import (
	"slices"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Peers compares the backends of a service, by the sessions that fail on them. It is shared by them and may be used from any
// goroutine. The zero value is ready.
type Peers struct {
	mu   sync.Mutex
	list []*member // guarded by mu
}

// member is what the others of a service are told of a backend. A nil member is not compared.
type member struct {
	peers *Peers // static
	// serves reports whether the backend gets sessions. Static; it must not use Peers.
	serves func() bool

	sessions health.Sessions // guarded by Peers.mu
	ejected  bool            // guarded by Peers.mu: as it was last decided
}

// join adds a backend. A nil Peers compares nothing.
func (p *Peers) join(serves func() bool) *member {
	if p == nil {
		return nil
	}
	joined := &member{peers: p, serves: serves}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, joined)
	return joined
}

// leave takes the backend out of the comparison for good.
func (p *member) leave() {
	p.locked(func() { p.peers.list = slices.DeleteFunc(p.peers.list, func(other *member) bool { return other == p }) })
}

// locked calls f with Peers.mu held, if the backend is compared.
func (p *member) locked(f func()) {
	if p == nil {
		return
	}
	p.peers.mu.Lock()
	defer p.peers.mu.Unlock()
	f()
}

// sessionBegan counts a session.
func (p *member) sessionBegan(now pool.Instant) { p.locked(func() { p.sessions.Begin(now) }) }

// sessionFailed counts a session that failed.
func (p *member) sessionFailed(now pool.Instant) { p.locked(func() { p.sessions.Fail(now) }) }

// compare calls decide with the backend's sessions and those of the others, which are added up only when asked for. decide returns
// whether the backend is ejected; it must not use Peers.
func (p *member) compare(now pool.Instant, decide func(own *health.Sessions, peers func() health.Peers) (ejected bool)) {
	p.locked(func() { p.ejected = decide(&p.sessions, func() health.Peers { return p.others(now) }) })
}

// others adds up the other backends. It is called with the mutex held.
func (p *member) others(now pool.Instant) (sum health.Peers) {
	for _, other := range p.peers.list {
		switch {
		case other == p:
		case other.ejected:
			sum.Ejected++
		case other.serves():
			other.sessions.Fade(now)
			sum.Serving++
			sum.Sessions.Began += other.sessions.Began
			sum.Sessions.Failed += other.sessions.Failed
		}
	}
	return sum
}
