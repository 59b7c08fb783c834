package app

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/operate/problems"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
)

// sampleOver is how long what looks at all sessions once a second may take for it.
const sampleOver = 400 * time.Millisecond

// lags are what backends owe their sessions, as of a time.
type lags struct {
	at time.Time
	of map[relay.BackendName]relay.Lag
}

// watchProblems has the proxy look once a second whether something is wrong. What it reads of sessions' lags is also what lag-limit goes by, and what
// statistics show until the next time. The past is kept in the state directory, if there is one.
func (p *Proxy) watchProblems() {
	file := ""
	if p.settings.StateDirectory != "" {
		file = state.Problems(p.settings.StateDirectory)
	}
	p.problems = problems.New(problems.Options{
		Source: func() (api.Stats, meter.Snapshot) {
			read := &lags{time.Now(), p.sessions.Lags(sampleOver)}
			p.lags.Store(read)
			reliefs := p.services.SessionsLag(func(service, name string) backend.LagReading {
				return read.of[relay.BackendName{Service: service, Backend: name}].Late
			})
			for _, r := range reliefs {
				p.sessions.Relieve(r.From, r.To)
			}
			s := p.snapshot()
			return s.Stats, s.Meters
		},
		File: file, Mine: p.history.mine.Load, NotMine: errKeptByOther, Guard: p.guard, Log: p.log,
	})
	p.problems.Start()
}

// problemStats adds what is wrong, how services and backends are, and what was learned about backends on the way.
func (p *Proxy) problemStats(to *api.Stats) {
	to.Problems = p.problems.Problems()
	diagnosis.Describe(to)
	for i := range to.Backends {
		b := &to.Backends[i]
		if !replies(b) {
			continue
		}
		reply := p.problems.Reply(b.Service, b.Name)
		b.FirstReplySeconds, b.FirstReplies = reply.Seconds, reply.Sessions
	}
}

// replies reports whether what a backend's sessions had lately is what the next ones may expect: not of one that is dead or hangs.
func replies(b *api.Backend) bool {
	return b.Reachable && !b.Stalled && b.Condition.Word != api.Hung
}
