package failoverproof

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Kind is something that happens to servers.
type Kind string

// The kinds.
const (
	// Kill: a server dies in the middle of its frames, and is started again a moment later.
	Kill Kind = "kill"
	// KillAll: all servers die at once.
	KillAll Kind = "kill-all"
	// Close: a server closes all its sessions with 1011, and continues.
	Close Kind = "close"
	// Stall: a server hangs with open sockets, and continues later.
	Stall Kind = "stall"
	// Slow: a server falls behind for a while.
	Slow Kind = "slow"
	// Move: an operator moves all sessions of a server to others, by replay after up to 2 s.
	Move Kind = "move"
)

// shares are how often each kind happens.
var shares = map[Kind]int{Kill: 40, KillAll: 2, Close: 15, Stall: 18, Slow: 5, Move: 20}

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Sorted(maps.Keys(shares)) }

// KindNamed returns the kind of that name.
func KindNamed(name string) (Kind, error) {
	kind, err := kit.Find("event", name, Kinds(), func(k *Kind) string { return string(*k) })
	if err != nil {
		return "", err
	}
	return *kind, nil
}

// draw returns a random kind.
func draw(kinds []Kind, dice *rand.Rand) Kind {
	var of []int
	for _, kind := range kinds {
		of = append(of, shares[kind])
	}
	return kinds[kit.Draw(dice, of)]
}

// The time between two events is never much shorter than Every, since the proxy ends sessions from which two servers in a row failed without
// answering anything: they may be what kills servers. For the same reason, at most two servers stall at a time (mostStalled): a session that
// moves from one to the other still finds one that answers.
const mostStalled = 2

// sabotage lets things happen to servers until there were enough, or the time is over. At most one thing at a time happens to a server.
// It returns how often each kind happened, when everything is well again.
func (r *proof) sabotage(ctx context.Context) (map[Kind]int, error) {
	working, cancel := context.WithTimeout(ctx, r.o.Duration)
	defer cancel()
	if r.o.Events == 0 {
		<-working.Done()
		return nil, nil
	}
	dice := rand.New(rand.NewPCG(r.o.Seed, 0))
	var (
		happened = make(map[Kind]int)
		victims  sync.WaitGroup
		busy     = make([]sync.Mutex, len(r.scene.servers))
		mu       sync.Mutex
		failed   error // guarded by mu
		stalled  = make(chan struct{}, mostStalled)
	)
	for n := 0; n < r.o.Events; n++ {
		kind, victim := draw(r.o.Kinds, dice), dice.IntN(len(r.scene.servers))
		pause, length := kit.Between(dice, r.o.Every*7/10, r.o.Every*13/10), dice.Float64()
		if kit.Wait(working, pause) != nil {
			break
		}
		of := []int{victim}
		if kind == KillAll {
			of = of[:0]
			for i := range r.scene.servers {
				of = append(of, i)
			}
		}
		if kind == Stall {
			stalled <- struct{}{}
		}
		for _, i := range of {
			busy[i].Lock()
		}
		happened[kind]++
		fmt.Fprintf(r.o.Log, "%s event %d: %s %v\n", time.Now().Format("15:04:05.000"), n+1, kind, of)
		for _, i := range of {
			victims.Go(func() {
				defer busy[i].Unlock()
				if kind == Stall {
					defer func() { <-stalled }()
				}
				if err := r.scene.happen(ctx, kind, i, length); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					cancel()
				}
			})
		}
	}
	victims.Wait()
	return happened, failed
}

// happen lets something happen to a server, and makes it well again. length is from 0 to 1.
func (s *scene) happen(ctx context.Context, kind Kind, victim int, length float64) error {
	server := s.servers[victim]
	between := func(least, most time.Duration) { // also when everything ends, servers must get well again
		_ = kit.Wait(ctx, least+time.Duration(length*float64(most-least)))
	}
	switch kind {
	case Kill, KillAll:
		server.Kill()
		between(100*time.Millisecond, time.Second)
		return server.Revive()
	case Close:
		server.CloseSessions(frame.InternalError, "an exception")
	case Stall:
		server.Stall()
		between(500*time.Millisecond, 3*time.Second) // some shorter than the stall timeout
		server.Resume()
	case Slow:
		server.Slow(3)
		between(500*time.Millisecond, time.Second)
		server.Slow(0)
	case Move:
		return s.move(ctx, server, time.Duration(length*float64(2*time.Second)))
	}
	return nil
}
