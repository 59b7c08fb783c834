package main

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tick     = 5 * time.Second // between two looks at the pool without a signal, give or take a fifth
	parallel = 32              // most dials at once
)

// signal asks the worker to look at the pool. It never blocks.
func (p *pool) signal() {
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

// work reconciles the pool when asked to, and from time to time. It is one goroutine, which alone dials.
func (p *pool) work() {
	for {
		p.reconcile()
		select {
		case <-p.wanted:
		case <-time.After(tick*4/5 + rand.N(tick*2/5)):
		}
	}
}

// reconcile drops what is dead among the available connections, and dials what is missing.
func (p *pool) reconcile() {
	for range len(p.available) {
		select {
		case c := <-p.available:
			if !c.healthy.Load() || !p.offer(c) {
				c.close()
			}
		default: // all are leased meanwhile
		}
	}
	for missing := p.size - p.total(); missing > 0; missing -= parallel {
		if !p.dial(min(missing, parallel)) {
			return
		}
	}
}

// dial dials count connections in parallel, and returns false when one of them failed.
func (p *pool) dial(count int) bool {
	var dialing sync.WaitGroup
	var failed atomic.Bool
	for range count {
		dialing.Go(func() {
			conn, _, err := p.dialer.Dial(p.url, nil)
			if err != nil {
				failed.Store(true)
				return
			}
			if c := newConnection(p, conn); !p.offer(c) {
				c.close()
			}
		})
	}
	dialing.Wait()
	return !failed.Load()
}
