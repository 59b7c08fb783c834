package app

import (
	"log/slog"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/journal"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
)

const (
	// mostEnds is how many sessions that have ended are shown.
	mostEnds = 1024
	// endsFile is the size at which the file of ended sessions is put aside: some 700 sessions.
	endsFile = 512 << 10
	// endsInterval is how often the sessions that have ended are handed to the file. If more than 1,024 end meanwhile, it lacks some.
	endsInterval = time.Second
)

// ends keeps the sessions that have ended last in a file, over restarts and upgrades. Sessions know nothing of it: it reads what the proxy
// remembers of them.
type ends struct {
	// Static. The path is empty, and the journal nil, without a state directory.
	path    string
	mine    func() bool // reports whether the file is this process's
	journal *journal.Journal[endKept]
	log     *slog.Logger

	// Owned by run.
	count   uint64 // of the sessions that have ended: those that the journal has
	failing bool   // that it cannot be written was logged
}

// endKept is a session that has ended, as the file has it.
type endKept struct {
	api.Session
	Path string `json:"path"`
}

// keepEnds begins to keep the sessions that end. Call endEnds after the last one.
func (p *Proxy) keepEnds() {
	p.ends.log = p.log
	if p.settings.StateDirectory == "" {
		return
	}
	p.ends.path, p.ends.mine = state.Ends(p.settings.StateDirectory), p.history.mine.Load
	p.ends.journal = journal.Open[endKept](journal.Options{Path: p.ends.path, MaxBytes: endsFile, Unwritten: mostEnds})
	p.background.Go(func() {
		for tasks.Sleep(p.stopped, endsInterval) {
			p.ends.hand(p.sessions.Ended)
		}
		p.ends.hand(p.sessions.Ended)
		p.ends.journal.Close()
	})
}

// hand hands the sessions that have ended since the last time to the journal.
func (e *ends) hand(since func(uint64) ([]record.Record, uint64)) {
	var records []record.Record
	records, e.count = since(e.count)
	for i := range records {
		if !e.mine() {
			break
		}
		e.journal.Append(endKept{endedSession(&records[i]), records[i].Path})
	}
	switch err := e.journal.Problem(); {
	case err != nil && !e.failing:
		e.failing = true
		e.log.Warn("sessions that have ended are kept in memory only: their file cannot be written", "reason", err)
	case err == nil && e.failing:
		e.failing = false
		e.log.Info("sessions that have ended are written to their file again")
	}
}

// read returns the sessions in the file, oldest first, also those of the processes before this one.
func (e *ends) read() []endKept {
	if e.path == "" || !e.mine() {
		return nil
	}
	kept, err := journal.Read[endKept](e.path, mostEnds)
	if err != nil {
		e.log.Debug("the file of ended sessions cannot be read", "reason", err)
	}
	return kept
}

// latestEnds returns the sessions that have ended, the latest first.
func (p *Proxy) latestEnds() []api.Session {
	own, _ := p.endedSessions(0)
	return p.ends.with(own)
}

// with returns sessions that the process remembers, and those of the file, the latest first.
func (e *ends) with(all []api.Session) []api.Session {
	known := make(map[string]bool, len(all))
	for i := range all {
		known[all[i].ID] = true
	}
	for _, kept := range e.read() {
		if !known[kept.ID] {
			all = append(all, kept.Session)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Session) int { return b.Ended.Compare(a.Ended) })
	return all[:min(len(all), mostEnds)]
}

// find returns a session of the file.
func (e *ends) find(id string) (detail api.SessionDetail, ok bool) {
	kept := e.read()
	i := slices.IndexFunc(kept, func(k endKept) bool { return k.ID == id })
	if i < 0 {
		return detail, false
	}
	return api.SessionDetail{Session: kept[i].Session, Path: kept[i].Path}, true
}
