package app

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
)

const (
	// defaultReplayMemory is how much memory failover and reconnect may use if the settings do not say it.
	defaultReplayMemory = 1 << 30
	// replayShare bounds them by default: they use at most 1/replayShare of the machine's memory.
	replayShare = 8
	// failedLately is how long the statistics say that a session could not continue on another backend.
	failedLately = 10 * time.Minute
)

// replayMemory returns how many bytes may be kept for the next servers of sessions, and for clients that come back.
func (s *Settings) replayMemory() int64 { return ReplayMemory(s.ReplayMemory, machine.Granted()) }

// ReplayMemory returns how many bytes may be kept for the next servers of sessions, and for clients that come back, on a machine that grants so
// much. setting is the setting replay-memory; 0 for the default.
func ReplayMemory(setting int64, here machine.Here) int64 {
	switch {
	case setting > 0:
		return setting
	case here.Memory <= 0: // it is not known
		return defaultReplayMemory
	}
	return min(defaultReplayMemory, here.Memory/replayShare)
}

// reconnects returns what became of clients whose connection broke.
func reconnects(s *session.Stats) api.Reconnects {
	return api.Reconnects{
		Parked: s.Resume.Parked, Lost: s.Resume.Lost, Resumed: s.Resume.Resumed, Expired: s.Resume.Expired, Refused: s.Resume.Refused,
		Forwarding: s.Forwarding, Forwarded: s.Forwarded, Redirected: s.Redirected,
	}
}

// lagStats adds what backends owe their sessions. The backends are there already.
func lagStats(to *api.Stats, read *lags) {
	for i := range to.Backends {
		b := &to.Backends[i]
		lag := read.of[relay.BackendName{Service: b.Service, Backend: b.Name}]
		b.LagSeconds, b.MedianLagSeconds, b.OwedSeconds = lag.Longest.Seconds(), lag.Median.Seconds(), lag.Owed.Seconds()
		b.LatenessSeconds = lag.Late.Lag.Seconds()
		b.AnsweredSessions, b.FirstReplyOwedSeconds, b.HeardSessions = lag.Answered, lag.FirstReplyOwed.Seconds(), lag.Heard
		if lag.Overdue+lag.Unreplied > 0 {
			b.Overdue = &api.Overdue{
				Sessions: lag.Overdue, Unreplied: lag.Unreplied, LongestSeconds: lag.OverdueFor.Seconds(),
				Since: read.at.UTC().Add(-lag.OverdueFor), PatienceSeconds: lag.Patience.Seconds(),
			}
		}
	}
}

// failoverStats adds what was counted of sessions that outlive their backends, and the memory for that. The services and backends are there
// already.
func (p *Proxy) failoverStats(to *api.Stats, counted []meter.BackendTotals) {
	backends := make(map[[2]string]*api.Backend, len(to.Backends))
	for i := range to.Backends {
		b := &to.Backends[i]
		backends[[2]string{b.Service, b.Name}] = b
	}
	for i := range counted {
		t := &counted[i]
		var moved, notMoved uint64
		for _, n := range t.Failovers {
			moved, notMoved = moved+n.Moved, notMoved+n.NotMoved
		}
		if b := backends[[2]string{t.Service, t.Backend}]; b != nil {
			b.Stalls, b.Moved, b.NotMoved = t.Stalls, moved, notMoved
		}
		if service := to.Service(t.Service); service != nil && service.Failover != nil {
			addFailovers(service.Failover, t, moved, notMoved)
		}
	}
	for i := range to.Services {
		if f := to.Services[i].Failover; to.Services[i].ReconnectSeconds > 0 || f != nil && f.Mode != "off" {
			to.Replay = &api.Replay{MemoryBytes: p.replay.Used(), LimitBytes: p.replay.Limit()}
			return
		}
	}
}

func addFailovers(to *api.ServiceFailover, t *meter.BackendTotals, moved, notMoved uint64) {
	to.Moved += moved
	to.NotMoved += notMoved
	if at := t.FailoverFailed; time.Since(at) < failedLately && at.After(to.Failed) {
		to.Failed = at.UTC()
	}
	for why, n := range t.Unrecoverable {
		if n > 0 && to.Unassured == nil {
			to.Unassured = make(map[string]uint64)
		}
		if n > 0 {
			to.Unassured[meter.Unrecoverable(why).String()] += n
		}
	}
}

// ReplayNeed returns how much of replay-memory the only service in flags-only operation may need, in bytes.
func (s *Settings) ReplayNeed() int64 {
	_, draft, err := s.draft()
	if err != nil {
		return 0
	}
	return draft.ReplayNeed()
}
