package naivepool

import (
	"errors"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// checkAll fills the pool, and looks after it from time to time until the end.
func (p *Pool) checkAll() {
	p.check()
	ticker := time.NewTicker(p.settings.CheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.check()
		case <-p.stop:
			return
		}
	}
}

// check pings all connections that are not in use, and dials those that are missing. All of it is done under the mutex, so
// that nothing changes meanwhile.
func (p *Pool) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Clone(p.entries) {
		if !e.inUse { // a session would take the pong for its own
			p.ping(e)
		}
	}
	for p.total < p.size {
		if _, err := p.dial(); err != nil {
			return
		}
	}
}

// ping sees whether a connection is well. It is called with the mutex held.
func (p *Pool) ping(e *entry) {
	err := e.conn.Ping(p.settings.PingTimeout)
	switch {
	case errors.Is(err, network.ErrClosed):
		if !e.healthy { // it was taken out of the total before
			p.total++
		}
		p.remove(e)
	case err != nil && e.healthy:
		e.healthy = false
		p.total--
	case err == nil && !e.healthy:
		e.healthy = true
		p.total++
	}
}
