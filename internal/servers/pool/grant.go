package pool

// A pool whose server other proxies use, too, may have only as many connections as it was granted ([Settings.Shared]). The grant is a part
// of the pool's limit, so nothing else has to look at it: when it is lowered, idle connections beyond it are retired at once, and those of
// sessions when their sessions have ended. The functions of this file are called with the group's mutex held.

// allowed returns how many of the server's connections are this proxy's: the cap, or as many as are granted.
func (p *Pool[C]) allowed() int {
	if p.shared {
		return min(p.capacity, p.grant)
	}
	return p.capacity
}

// isOver reports whether the pool had more connections than its limit before the last one was gone.
func (p *Pool[C]) isOver() bool { return p.shared && p.present()+p.counts[Retiring] >= p.limit }

// unlockQueued releases the mutex after a client was queued, so that it is dialed for, or more places are asked for.
func (g *Group[C]) unlockQueued() {
	short := g.demanded != nil && g.isShort()
	g.unlock(nil, never)
	if short {
		g.demanded()
	}
}

// isShort reports whether more clients wait than sessions can begin within the limits.
func (g *Group[C]) isShort() bool {
	if g.paused {
		return false
	}
	left := g.queue.length
	for _, p := range g.pools {
		if p.leasable() {
			left -= p.limit - p.using()
		}
	}
	return left > 0
}

// Promised returns how many places are promised to tenants beyond those that they use. It may be called from any goroutine.
func (g *Group[C]) Promised() (places int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tenants {
		places += max(0, t.promised-t.inUse)
	}
	return places
}
