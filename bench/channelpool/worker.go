package channelpool

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	tick     = 5 * time.Second // between two looks at the pool without a signal, give or take a fifth
	parallel = 32              // most dials at once
)

// signal asks the worker to look at the pool. It never blocks.
func (p *Pool) signal() {
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

// work brings the pool to its size until the end. It is one goroutine, which alone dials.
func (p *Pool) work() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for p.ctx.Err() == nil {
		p.reconcile()
		timer.Reset(tick*4/5 + rand.N(tick*2/5))
		select {
		case <-p.wanted:
		case <-timer.C:
		case <-p.ctx.Done():
		}
	}
}

// reconcile drops what is dead or too much among the available connections, and dials what is missing.
func (p *Pool) reconcile() {
	surplus := p.total() - int(p.size.Load())
	for range len(p.available) {
		select {
		case e := <-p.available:
			if !e.healthy.Load() || surplus > 0 || !p.Offer(e) {
				p.drop(e)
				surplus--
			}
		default: // all are leased meanwhile
		}
	}
	for missing := int(p.size.Load()) - p.total(); missing > 0; missing -= parallel {
		if !p.dial(min(missing, parallel)) {
			return
		}
	}
}

// total returns how many connections there are, give or take those that are on their way from one place to the other.
func (p *Pool) total() int { return len(p.available) + int(p.leased.Load()) }

// dial dials so many connections at once, and returns false when one of them failed.
func (p *Pool) dial(count int) bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.settings.DialTimeout)
	defer cancel()
	var dialing sync.WaitGroup
	failed := make(chan error, count)
	for range count {
		dialing.Go(func() {
			conn, err := p.settings.Network.Dial(ctx)
			if err != nil {
				failed <- err
				return
			}
			if e := p.adopt(conn); !p.Offer(e) {
				p.drop(e)
			}
		})
	}
	dialing.Wait()
	return len(failed) == 0
}
