package app

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/live"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
)

// sessionsAPI returns what the admin API shows of sessions, and does to them.
func (p *Proxy) sessionsAPI() admin.Sessions {
	return admin.Sessions{
		All: p.allSessions, Ended: p.latestEnds,
		Detail: p.sessionDetail,
		Kill: func(text, why string) bool {
			id, ok := record.ParseID(text)
			return ok && p.sessions.Kill(id, why)
		},
		KillAll: func(backend, why string, within time.Duration) (int, error) {
			if err := p.services.HasBackend(backend); err != nil {
				return 0, err
			}
			return p.sessions.KillAll(backend, why, within), nil
		},
	}
}

// allSessions returns all sessions and waiting clients, in no order.
func (p *Proxy) allSessions() []api.Session {
	described, now := p.sessions.List(), time.Now()
	all := make([]api.Session, len(described))
	for i := range described {
		all[i] = sessionOf(&described[i], now)
	}
	return all
}

// endedSessions returns the sessions that have ended after the first n, oldest first, as far as they are remembered, and how many have
// ended.
func (p *Proxy) endedSessions(n uint64) (all []api.Session, count uint64) {
	records, count := p.sessions.Ended(n)
	return endedOf(records), count
}

func endedOf(records []record.Record) []api.Session {
	all := make([]api.Session, len(records))
	for i := range records {
		all[i] = endedSession(&records[i])
	}
	return all
}

// endedSession returns the description of a session that has ended.
func endedSession(r *record.Record) api.Session {
	s := sessionOf(&relay.Description{Record: *r, State: api.StateEnded, Decided: true}, r.Ended)
	s.Fate, s.Usage = r.Outcome.String(), usageOf(r.Used)
	return s
}

// sessionOf returns what the API says of a session.
func sessionOf(d *relay.Description, now time.Time) api.Session {
	s := withoutNames(d, now)
	s.ID, s.Client, s.Peer, s.TraceID = d.ID.String(), d.Client.String(), d.Peer.Text(), d.TraceID()
	if d.Backend != nil {
		s.Connection = connectionID(s.Backend, d.Connection)
	}
	return s
}

// withoutNames returns the same without the texts that take time to write: ID, Client, Peer, TraceID and Connection.
func withoutNames(d *relay.Description, now time.Time) api.Session {
	s := api.Session{
		Service: d.Service.Name, State: d.State, Started: d.Arrived.UTC(), RequestID: d.RequestID,
		AgeSeconds: now.Sub(d.Arrived).Seconds(), WaitedSeconds: d.Waited.Seconds(), Place: d.Place, Taps: d.Taps,
		FramesFromClient: d.Relayed.FramesFromClients, BytesFromClient: d.Relayed.BytesFromClients,
		FramesFromBackend: d.Relayed.FramesFromBackends, BytesFromBackend: d.Relayed.BytesFromBackends, Usage: usageOf(&d.Usage),
		FirstReplySeconds: cmp.Or(d.FirstReply, d.Timing.Unreplied).Seconds(), FirstReplyOwed: d.Timing.Unreplied > 0,
		LagSeconds: d.Timing.Lag.Seconds(), OwedSeconds: d.Timing.Owed.Seconds(),
		ClientSilentSeconds: d.Timing.ClientSilent.Seconds(), BackendSilentSeconds: d.Timing.ServerSilent.Seconds(),
		Tenant:  record.ShownIdentity(d.Identity).Tenant,
		Assured: d.Recoverable, Unassured: d.Unrecoverable, KeptBytes: d.Kept, Failovers: int(d.Record.Moves),
	}
	if d.Backend != nil {
		s.Backend = d.Backend.Name()
	}
	if d.Identity != nil {
		who := record.ShownIdentity(d.Identity)
		s.Tenant, s.Subject, s.Auth, s.Key = who.Tenant, who.Subject, who.Method, who.Key
	}
	if d.Decided {
		s.Ended, s.By, s.Code, s.Reason = d.Ended.UTC(), d.By.String(), uint16(d.Code), d.ShownReason()
		s.Class = d.Class.String()
	}
	return s
}

// connectionID names a backend's connection.
func connectionID(backend string, number uint32) string {
	return backend + "/" + strconv.FormatUint(uint64(number), 10)
}

// counted returns what was counted of all backends.
func (p *Proxy) counted() meter.Totals { return p.sessions.Stats().Meters.Total }

// sampleSessions appends all sessions and waiting clients for the stream of events.
func (p *Proxy) sampleSessions(_ context.Context, into []live.Session) []live.Session {
	p.sessions.Describe(func(some []relay.Description) {
		now := time.Now()
		for i := range some {
			d := &some[i]
			into = append(into, live.Session{
				Session: withoutNames(d, now), Number: d.ID.Number, Address: d.Client, PeerAddress: d.Peer, ConnectionNumber: d.Connection, Trace: d.Trace,
			})
		}
	})
	return into
}

// nameSession sets the texts that withoutNames leaves out.
func (p *Proxy) nameSession(s *live.Session) {
	s.ID, s.Client, s.Peer, s.TraceID = p.sessions.ID(s.Number).String(), s.Address.String(), s.PeerAddress.Text(), s.Trace.ShownID()
	if s.Backend != "" {
		s.Connection = connectionID(s.Backend, s.ConnectionNumber)
	}
}

// sessionDetail returns one session, also one that has ended and is remembered.
func (p *Proxy) sessionDetail(text string) (detail api.SessionDetail, ok bool) {
	id, ok := record.ParseID(text)
	if !ok {
		return detail, false
	}
	now := time.Now()
	d, ok := p.sessions.Detail(id)
	if !ok {
		record, ok := p.sessions.EndedSession(id)
		if !ok {
			return p.ends.find(text)
		}
		return api.SessionDetail{Session: endedSession(&record), Path: record.Path}, ok
	}
	detail = api.SessionDetail{
		Session: sessionOf(&d.Description, now), Path: d.Path, Host: d.Host, Profile: d.Profile, Variant: d.Variant, Moves: d.Moves,
		Paused: d.Paused, BackendPaused: d.BackendPaused, PendingToClient: d.ToClient, PendingToBackend: d.ToBackend,
		Before: endedOf(d.Before),
	}
	detail.Failover = failoverOf(d.Recoverability)
	if d.HeldBack != "" {
		detail.HeldBack = &api.HeldBack{Limit: d.HeldBack, Since: d.HeldBackSince.UTC()}
	}
	if d.Place > 0 {
		detail.Queue = &api.Place{
			Place: d.Place, Waiting: d.Waiting, WaitedSeconds: detail.WaitedSeconds, TimeoutSeconds: max(0, d.Until.Sub(now).Seconds()),
		}
	}
	if d.State == api.StateMoving && !d.Until.IsZero() {
		detail.MoveTimeoutSeconds = max(0, d.Until.Sub(now).Seconds())
	}
	if c := d.Server; c != nil {
		detail.Server = &api.Connection{
			ID: connectionID(d.Backend.Name(), c.Number), State: c.State, Established: now.Add(-c.Established).UTC(), AgeSeconds: c.Established.Seconds(),
			Sessions: c.Sessions, RoundTripSeconds: c.RoundTrip.Seconds(), Subprotocol: c.Protocol, Boundary: c.Boundary,
		}
	}
	return detail, true
}

// failoverOf returns what the API says of how a session could continue on another backend; nil for nothing.
func failoverOf(a *relay.Recoverability) *api.Failover {
	if a == nil {
		return nil
	}
	f := &api.Failover{
		Assured: a.Recoverable, Why: a.Why, KeptBytes: a.Kept, MemoryBytes: a.Memory, AudioSeconds: a.Audio.Seconds(), AnsweredSeconds: a.Answered.Seconds(),
	}
	for _, m := range a.Moves {
		f.Moves = append(f.Moves, api.Move{
			Time: m.At.UTC(), From: m.From, To: m.To, Cause: m.Cause.String(), ReplayedSeconds: m.Replayed.Seconds(), TookSeconds: m.Took.Seconds(),
		})
	}
	return f
}
