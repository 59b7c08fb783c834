package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
)

// mostPulses returns how many exchanges in a row may be pulses. After them, the proxy reads how many sessions the others have, which costs the
// more, the more of them there are: about every members/4 seconds.
func mostPulses(members int) int {
	return max(3, int(time.Duration(members)*time.Second/4/fleet.Late(members)))
}

// rest is what the last answer said of a ledger at rest. While the ledger has that version in that epoch, it is still true: each change of
// it, of members or of what is frozen makes another version.
type rest struct {
	valid   bool // the ledger is not frozen, and settled
	epoch   fleet.Epoch
	version int64
	about   fleet.Member // what the ledger knows of the proxy
	pulses  int          // since that answer
}

// learn notes what an answer said.
func (s *Store) learn(r *fleet.Report, a *fleet.Answer) {
	about := storage.Lasting(&r.About)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = rest{
		valid: !a.Frozen && a.Settled && !a.Again && !a.Stale && !r.Leaves,
		epoch: a.Epoch, version: a.Version, about: about,
	}
}

// pulse tries to carry out an exchange by counting a beat. It returns no answer if there is more to do; counted: the beat was counted then.
func (s *Store) pulse(ctx context.Context, a *attempt, r *fleet.Report) (answer *fleet.Answer, counted bool, err error) {
	s.mu.Lock()
	s.rest.pulses++
	last, members := s.rest, len(s.members.byID)
	s.mu.Unlock()
	if !last.valid || !r.Quiet() || r.Epoch != last.epoch || r.Version != last.version || last.pulses > mostPulses(members) || storage.Lasting(&r.About) != last.about {
		return nil, false, nil
	}
	var all bool
	late := fleet.Late(members).Milliseconds()
	err = a.pulse(ctx, []any{string(r.ID), int64(r.Sequence), r.About.Sessions, string(r.Epoch), r.Version, late}, []any{&all})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil || !all:
		return nil, err == nil, err
	}
	return &fleet.Answer{Epoch: last.epoch, Version: last.version, Settled: true}, true, nil
}
