package session

import (
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// board tells waiting clients their places, and clients in sessions that these are degraded, of services that want that. One goroutine
// looks at the queues once a second; it begins with the first such service, and ends with the server.
type board struct {
	mu      sync.Mutex
	started bool                                     // guarded by mu
	rates   map[*pool.Group[*backend.Conn]]*waitRate // guarded by mu
}

// boardPeriod is how often a waiting client is told its place at most.
const boardPeriod = time.Second

// startBoard starts the board when a service needs it.
func (g *Gate) startBoard(services []*Service) {
	for _, service := range services {
		if !service.tellsQueue() && !service.tellsState() {
			continue
		}
		g.board.mu.Lock()
		if !g.board.started {
			g.board.started = g.pending.Go(g.runBoard)
		}
		g.board.mu.Unlock()
		return
	}
}

func (g *Gate) runBoard() {
	tick := time.NewTicker(boardPeriod)
	defer tick.Stop()
	for {
		g.lookOnce()
		select {
		case <-tick.C:
		case <-g.closing.Done():
			return
		}
	}
}

// lookOnce goes on to the next second after a mistake.
func (g *Gate) lookOnce() {
	defer g.options.Guard.Recover("board", func() {})
	g.updateBoard(time.Now())
}

// updateBoard samples the rates, and tells clients what has changed. One goroutine calls it.
func (g *Gate) updateBoard(now time.Time) {
	routes := g.routes.Load()
	g.board.sample(now, routes)
	g.options.Tick()
	clients := g.options.Waiting.AllWaiting()
	told := false
	for _, w := range clients {
		told = told || w.Tell != nil
	}
	if !told {
		return
	}
	places := placesOf(clients)
	for _, w := range clients {
		if w.Tell != nil {
			w.Tell(places[w], g.board.wait(w.Service, places[w]))
		}
	}
}

// sample counts the leases that have ended, and forgets services that are gone.
func (b *board) sample(now time.Time, r *routes) {
	ended := make(map[*pool.Group[*backend.Conn]]uint64)
	for _, service := range r.services {
		if service.tellsQueue() {
			ended[service.Group] = service.Group.LeasesEnded()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rates := make(map[*pool.Group[*backend.Conn]]*waitRate, len(ended))
	for group, n := range ended {
		rate := b.rates[group]
		if rate == nil {
			rate = new(waitRate)
		}
		rate.sample(now, n)
		rates[group] = rate
	}
	b.rates = rates
}

// wait returns how many seconds a client waits at this place of a service's queue; -1 if nobody knows.
func (b *board) wait(service *Service, place int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rate := b.rates[service.Group]; rate != nil {
		return rate.wait(place)
	}
	return -1
}
