//go:build linux

package fleetproof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// errViolated ends the proof after the first violation of a cap: what comes after it tells nothing new.
var errViolated = errors.New("violated")

// lookInterval is the time between two looks at whether all places are in use.
const lookInterval = 20 * time.Millisecond

// tally is what all events of a kind have caused.
type tally struct {
	events int
	took   []time.Duration // until all places were in use
	cut    int             // sessions that ended because their proxy was killed
	limit  time.Duration
}

// play has events happen until the time is over.
func (r *proof) play(ctx context.Context) error {
	if err := r.recover(ctx, "start", time.Now(), kit.StartTimeout); err != nil {
		return err
	}
	if err := r.balance(ctx); err != nil {
		return err
	}
	var deck []kind
	played := false
	for end := time.Now().Add(r.options.Duration); r.options.Once || time.Now().Before(end); {
		if len(deck) == 0 {
			if r.options.Once && played {
				return nil
			}
			deck, played = r.deck(), true
		}
		k := deck[0]
		deck = deck[1:]
		if err := r.happen(ctx, k); err != nil {
			return err
		}
		if err := r.pause(ctx, 300*time.Millisecond, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// deck returns all kinds of events in random order, so that each happens before one happens again.
func (r *proof) deck() (deck []kind) {
	for _, k := range kinds {
		if len(r.options.Kinds) == 0 || slices.Contains(r.options.Kinds, k.name) {
			deck = append(deck, k)
		}
	}
	r.dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// happen has one event happen, and waits until all is as it should be.
func (r *proof) happen(ctx context.Context, k kind) error {
	r.journal.Event("event: %s", k.name)
	cut := r.crowd.cuts()
	r.event, r.at = k.name, time.Time{}
	for _, s := range k.steps {
		if err := s(r, ctx); err != nil {
			return err
		}
	}
	if k.limit == epochLimit {
		r.replaced = time.Now()
	}
	t := r.tally(k.name)
	t.events++
	if !r.at.IsZero() { // otherwise it has waited for that itself
		if err := r.recover(ctx, k.name, r.at, k.limit); err != nil {
			return err
		}
	}
	if err := r.balance(ctx); err != nil {
		return err
	}
	r.watcher.update(func() { r.watcher.forgot = false })
	t.cut += r.crowd.cuts() - cut
	return nil
}

func (r *proof) tally(name string) *tally {
	t := r.results[name]
	if t == nil {
		t = new(tally)
		r.results[name] = t
	}
	return t
}

// recover waits until all places of all servers have been in use since a time. That they are not within the limit is a violation. While the
// ledger grants nothing, since an event before this one has replaced the database, the time does not count.
func (r *proof) recover(ctx context.Context, name string, since time.Time, limit time.Duration) error {
	t := r.tally(name)
	t.limit = limit
	late := false
	for {
		missing := r.watcher.notFull(since)
		took := time.Since(since)
		if missing == "" {
			t.took = append(t.took, took)
			r.journal.Event("%s: all places are in use after %v", name, took.Round(time.Millisecond))
			return r.violated()
		}
		if took > limit && limit != epochLimit && r.grantsNothing(ctx) {
			since = time.Now()
			continue
		}
		if took > limit+r.options.Slack && !late {
			late = true
			r.journal.Violation("", "places were not in use for too long: "+name, r.pools(ctx, ""), "after %v (%v are stated): %s", took.Round(time.Millisecond), limit, missing)
		}
		if took > 4*limit+time.Minute {
			r.journal.Violation("", "places were lost: "+name, r.pools(ctx, ""), "after %v: %s", took.Round(time.Second), missing)
			return errViolated
		}
		if err := r.violated(); err != nil {
			return err
		}
		if err := kit.Wait(ctx, lookInterval); err != nil {
			return err
		}
	}
}

// balance waits until each proxy whose clients wait has at least half of its fair part of all places: those that sessions use come free as
// these end. That some have not for long is a violation.
func (r *proof) balance(ctx context.Context) error {
	t := r.tally("fair parts")
	t.limit = sessionLimit
	places, sum := r.places(), 0
	for _, share := range r.shares {
		sum += share
	}
	took, err := r.expect(ctx, "a proxy whose clients wait has too few places", "", sessionLimit, func() string {
		var missing []string
		for i, p := range r.proxies {
			fair := min(r.options.Sessions*r.shares[i]/sum, places/len(r.proxies)) / 2
			if has := r.watcher.held(p.source); has < fair {
				missing = append(missing, fmt.Sprintf("%s has %d, half of its part is %d", p.Name, has, fair))
			}
		}
		return strings.Join(missing, "; ")
	})
	if took > 0 {
		t.events++
		t.took = append(t.took, took)
	}
	return err
}

// places returns how many places all servers have.
func (r *proof) places() (n int) {
	for _, s := range r.servers {
		n += s.cap
	}
	return n
}

// expect waits until nothing is missing, and returns how long that took. That something is for longer than the limit and the slack is a violation: then
// it returns 0. While the ledger grants nothing, the time does not count. server is whose pools a violation shows; empty for all.
func (r *proof) expect(ctx context.Context, kind, server string, limit time.Duration, look func() (missing string)) (took time.Duration, err error) {
	for begin := time.Now(); ; {
		missing := look()
		took := max(time.Since(begin), 1)
		switch {
		case missing == "":
			return took, nil
		case took > limit && r.grantsNothing(ctx):
			begin = time.Now()
		case took > limit+r.options.Slack:
			r.journal.Violation("", kind, r.pools(ctx, server), "after %v: %s", took.Round(time.Millisecond), missing)
			return 0, nil
		}
		if err := kit.Wait(ctx, lookInterval); err != nil {
			return 0, err
		}
	}
}

// pools returns what all proxies say of their connections to a server, or to all.
func (r *proof) pools(ctx context.Context, name string) (lines []string) {
	for _, p := range r.proxies {
		if !p.Alive() {
			continue
		}
		s, err := p.Stats(ctx)
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", p.Name, err))
			continue
		}
		for _, b := range s.Backends {
			if name == "" || b.Name == name {
				lines = append(lines, fmt.Sprintf("%s, %s: %+v", p.Name, b.Name, b.Pool))
			}
		}
	}
	return lines
}

// violated returns an error once a cap was exceeded.
func (r *proof) violated() error {
	r.watcher.mu.Lock()
	defer r.watcher.mu.Unlock()
	for _, s := range r.watcher.servers {
		if s.Over > s.Excused {
			return errViolated
		}
	}
	return nil
}

// pause waits for a random time.
func (r *proof) pause(ctx context.Context, least, most time.Duration) error {
	if r.options.Once {
		most = least + (most-least)/10
	}
	return kit.Wait(ctx, kit.Between(r.dice, least, most))
}

// any returns a random proxy.
func (r *proof) any() *proxy { return r.proxies[r.dice.IntN(len(r.proxies))] }

// spread moves clients: each proxy gets a random share, some none, but never all none.
func (r *proof) spread() {
	r.share()
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
}

// share draws shares.
func (r *proof) share() {
	shares := []int{0, 1, 1, 3, 10}
	for {
		sum := 0
		for i := range r.shares {
			r.shares[i] = shares[r.dice.IntN(len(shares))]
			sum += r.shares[i]
		}
		if sum > 0 {
			return
		}
	}
}

// avoid moves the clients of a proxy to the others.
func (r *proof) avoid(avoided ...*proxy) {
	sum := 0
	for _, p := range avoided {
		r.shares[p.index] = 0
	}
	for _, share := range r.shares {
		sum += share
	}
	if sum == 0 {
		for i := range r.shares {
			if !slices.Contains(avoided, r.proxies[i]) {
				r.shares[i] = 1
			}
		}
	}
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
}

// finish checks that the caps were watched, has all clients leave and all proxies end, and checks that nothing is left.
func (r *proof) finish(ctx context.Context) {
	r.watcher.prove()
	r.journal.Event("the clients leave")
	patience := sessionLimit
	if r.options.Once {
		patience = time.Second
	}
	if !r.crowd.leave(ctx, patience) {
		r.journal.Violation("", "sessions did not end", nil, "%v after their clients had left, some were left", kit.StartTimeout)
		return
	}
	if err := kit.Wait(ctx, time.Second); err != nil {
		return
	}
	for _, p := range r.proxies {
		begin := time.Now()
		if err := p.End(drainTimeout + kit.StartTimeout); err != nil {
			r.journal.Violation("", "a proxy did not end well", nil, "%v", err)
			continue
		}
		r.journal.Event("%s has ended after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	}
	r.checkLeft(ctx)
}

// processLock are the names of the files that processes of proxies lock as long as they live.
var processLock = regexp.MustCompile(`/fleet/[0-9a-f]{16}\.lock$`)

// checkLeft checks that the ended proxies have left no connection, port, socket or lock behind.
func (r *proof) checkLeft(ctx context.Context) {
	if err := kit.Wait(ctx, 200*time.Millisecond); err != nil { // servers' kernels see the last ends
		return
	}
	for _, s := range r.servers {
		if n := r.watcher.count(s.seen); n > 0 {
			r.journal.Violation("", "connections are left", nil, "%s has %d after all proxies have ended", s.name, n)
		}
	}
	for _, p := range r.proxies {
		for _, address := range []string{p.Listen, p.admin} {
			if nc, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = nc.Close()
				r.journal.Violation("", "a port is left", nil, "%s still listens at %s", p.Name, address)
			}
		}
		_ = filepath.WalkDir(p.State, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && (entry.Type()&fs.ModeSocket != 0 || processLock.MatchString(filepath.ToSlash(path))) {
				r.journal.Violation("", "files are left", nil, "%s has left %s", p.Name, path)
			}
			return nil
		})
	}
}
