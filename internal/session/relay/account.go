package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file counts what sessions use: audio and results. Everything is counted at the client's side, so that what is sent to another server once
// more counts once. It is computed from what the scanners count anyway, when it is asked for: once a second, and at the end.

// account is what a session's client has used, what is needed to compute it, and other things that few events of a session need. It is owned by the
// session's loop.
type account struct {
	formats  profile.Formats // of the audio; what the tracker knows of the client's counts for a session with failover
	controls limits.Controls // of the client
	spoke    loop.Instant    // when the client's first message had come; 0 before that
	earlier  served          // on former legs
	before   served          // what the scanner of the leg's connection had counted when the leg began, and what the client did not get of it since
	booked   meter.Used      // what Book has got
	affinity *affinity       // nil unless servers give clients ids
	silence  *silence        // nil unless the session needs it: see silence.go
}

// served is what servers have sent.
type served struct{ messages, bytes, text uint64 }

func servedBy(s *frame.Scanner) served { return served{s.Messages, s.Bytes, s.Text} }

// add adds what was served between two counts.
func (s *served) add(from, to served) {
	s.messages += to.messages - from.messages
	s.bytes += to.bytes - from.bytes
	s.text += to.text - from.text
}

// beginAccount begins to count what the server of a new leg sends.
func (s *Session) beginAccount(conn *backend.Conn) {
	s.account.before = servedBy(&conn.Scanner)
	conn.Boundary().ReadFormats(&s.account.formats)
}

// endAccount adds what the server of the present leg has sent. The leg is about to end.
func (s *Session) endAccount() {
	s.account.earlier.add(s.account.before, servedBy(&s.leg.conn.Scanner))
}

// hide takes a message of the server out of the account: the client does not get it.
func (a *account) hide(op frame.Opcode, size int) {
	a.before.messages++
	a.before.bytes += uint64(size)
	if op == frame.Text {
		a.before.text += uint64(size)
	}
}

// used returns what the session's client has used so far. It is called on the session's loop.
func (s *Session) used() meter.Used {
	a := s.account
	format, out := &a.formats.In, a.earlier
	if s.failover != nil {
		followed := s.failover.tracker.Measure()
		format = &followed
	}
	if s.leg.conn != nil {
		out.add(a.before, servedBy(&s.leg.conn.Scanner))
	}
	u := meter.Used{Sessions: 1, Results: out.messages}
	u.In, u.Out = audioOf(format, served{0, s.scanner.Bytes, s.scanner.Text}), audioOf(&a.formats.Out, out)
	return u
}

// audioOf returns the audio in what was sent one way.
func audioOf(format *profile.Measure, sent served) (a meter.Audio) {
	var estimated bool
	a.Bytes = sent.bytes
	if a.Micros, a.Unknown, estimated = format.Audio(sent.bytes-sent.text, sent.text); estimated {
		a.Estimated = a.Micros
	}
	return a
}

// Usage is what clients have used since they were asked for last.
type Usage struct {
	payer
	Used meter.Used
}

// payer is whose usage it is.
type payer struct {
	service *route.Service
	who     *identity.Identity // nil for none
}

// Service returns the name of the service.
func (p payer) Service() string { return p.service.Name }

// Tenant and Key return the names of the clients' tenant and API key; empty for none.
func (p payer) Tenant() string { return record.TenantOf(p.who) }

func (p payer) Key() string {
	if p.who == nil {
		return ""
	}
	return p.who.Key
}

// newUsage returns what a session's client has used since the last call. It is called on the session's loop.
func (s *Session) newUsage() Usage {
	now := s.used()
	u := Usage{payer{s.record.Service, s.record.Identity}, now.Since(s.account.booked)}
	s.account.booked = now
	return u
}

// Usage calls book with what clients have used since the last call, and ends the sessions whose quota is used up. The rest of a session is booked
// when it ends. It must not be called on a loop, and may take as long as over if there are many sessions.
func (s *Sessions) Usage(over time.Duration, book func(Usage)) {
	sessions, _ := s.registry.all()
	var some []Usage
	limited := make(map[*Session]*limits.Hold)          // copies: new limits may add to a session's own meanwhile
	s.eachOver(over, sessions, func(session *Session) { // what takes longer is done when the loops have gone back to their sockets
		if u := session.newUsage(); u.Used != (meter.Used{}) {
			some = append(some, u)
		}
		if hold := session.limited.places(); hold.HasQuota() {
			limited[session] = hold.Copy()
		}
	}, func() {
		sums := make(map[payer]*meter.Used)
		for i := range some {
			if sum := sums[some[i].payer]; sum != nil {
				sum.Add(some[i].Used)
			} else {
				sums[some[i].payer] = &some[i].Used
			}
		}
		for who, used := range sums {
			book(Usage{who, *used})
		}
		some = some[:0]
	})
	ended := make(map[*Session]*limits.Left)
	for session, hold := range limited {
		if left := s.shared.Scopes.AudioLeft(hold); left != nil && left.Audio == 0 {
			ended[session] = left
		}
	}
	if len(ended) > 0 {
		s.Each(slices.Collect(maps.Keys(ended)), func(session *Session) { session.endByQuota(ended[session]) })
	}
}

// endByQuota ends the session, whose quota is used up.
func (s *Session) endByQuota(left *limits.Left) {
	if s.life.state >= lingering {
		return
	}
	s.limitEnds(left.Cause)
	s.End(meter.Limit, frame.PolicyViolation, "audio quota used up: it renews at "+left.Renews.UTC().Format(time.RFC3339))
}
