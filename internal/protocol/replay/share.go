package replay

import "container/heap"

// Owner is whose a window is. The arena is shared by tenant and, within a tenant, by network.
type Owner struct {
	Tenant, Network string
	// GiveUp has the owner free the window soon: the arena is used up, and this is one of the largest windows of those who have most of it.
	// Any goroutine may call it, without a lock. It must neither wait nor use the window. nil for an owner who never does.
	GiveUp func()
}

// Used-up memory is taken from those who have most of it, while those who have little continue.
const (
	// overdraft is the part of the limit (one in overdraft) that may be in use above it until the windows that were asked for it are free.
	overdraft = 16
	// maxAsked is how many windows are asked at once.
	maxAsked = 8
)

// share is what one window, network or tenant has of the arena, or all of them. It is guarded by the arena's mutex.
type share struct {
	of     *share // the network of a window, the tenant of a network, the whole of a tenant; nil for the whole, and for a window outside the tree
	name   string
	chunks int               // as they were last counted in the tree
	place  int               // in of.parts
	parts  parts             // those with chunks, but not windows that were asked
	named  map[string]*share // parts by name; nil in a network and in a window

	// Of a window.
	owner Owner
	has   int  // chunks
	asked bool // GiveUp was called, and the window has chunks still; it is outside the tree
}

// parts is a heap with the largest share on top.
type parts []*share

func (p parts) Len() int           { return len(p) }
func (p parts) Less(i, j int) bool { return p[i].chunks > p[j].chunks }

func (p parts) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].place, p[j].place = i, j
}

func (p *parts) Push(x any) {
	s := x.(*share)
	s.place = len(*p)
	*p = append(*p, s)
}

func (p *parts) Pop() any {
	last := len(*p) - 1
	s := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	return s
}

// part returns the part of that name, and makes it if need be.
func (s *share) part(name string) *share {
	p := s.named[name]
	if p == nil {
		p = &share{of: s, name: name}
		if s.named == nil {
			s.named = make(map[string]*share)
		}
		s.named[name] = p
		heap.Push(&s.parts, p)
	}
	return p
}

// grow adds n chunks to a share in the tree, and to all that it is part of; it takes them away if n is negative. Shares that have none left
// leave the tree.
func (s *share) grow(n int) {
	for s.of != nil {
		of := s.of
		if s.chunks += n; s.chunks > 0 {
			heap.Fix(&of.parts, s.place)
		} else {
			heap.Remove(&of.parts, s.place)
			delete(of.named, s.name)
			s.of = nil
		}
		s = of
	}
	s.chunks += n
}

// countLocked counts chunks that a window has taken; given back, if n is negative. The tree changes only when it is wrong by more than a quarter:
// most messages change nothing in it.
func (a *Arena) countLocked(window *share, n int) {
	window.has += n
	if window.asked {
		a.returning += int64(n) * chunkSize
		window.asked = window.has > 0
		return
	}
	wrong := window.has - window.chunks
	if 4*max(wrong, -wrong) <= window.chunks && window.has > 0 {
		return
	}
	if window.of == nil {
		window.of = a.all.part(window.owner.Tenant).part(window.owner.Network)
		heap.Push(&window.of.parts, window)
	}
	window.grow(wrong)
}

// askLocked takes a window out of the tree, since its chunks will come back.
func (a *Arena) askLocked(window *share) {
	window.grow(-window.chunks)
	window.asked, a.lastAsked = true, window.has
	a.returning += int64(window.has) * chunkSize
}

// payerLocked returns the window that gives up its chunks for the one that asks for some: the largest one of the network that has most of the
// tenant that has most. Where the asker's own tenant, network or window has at least half as much, it is that one, so that those who have
// taken a lot cannot take what others give back. nil if there is none.
func (a *Arena) payerLocked(asker *share) *share {
	at := &a.all
	for len(at.parts) > 0 {
		next := at.parts[0]
		for own := asker; own != nil; own = own.of {
			if own.of == at && 2*own.chunks >= next.chunks {
				next = own
				break
			}
		}
		at = next
	}
	if at == &a.all {
		return nil
	}
	return at
}

// Payer returns the tenant and network that give up something for a window when memory runs short, by the rule by which windows are asked for
// theirs: the window's own, or those that have most. Any goroutine may call it.
func (a *Arena) Payer(w *Window) (tenant, network string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	payer := a.payerLocked(w.share)
	if payer == nil {
		payer = w.share
	}
	return payer.owner.Tenant, payer.owner.Network
}

// makeRoom decides whether a window may have chunks that were counted as used and are above the limit. It returns which other windows are
// to be asked for theirs.
func (a *Arena) makeRoom(asker *share) (may bool, ask []*share) {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit, used := a.limit.Load(), a.used.Load()
	// One that has as much as the last one that was asked takes nothing of what that gives back.
	large := used-limit > a.returning || 2*asker.has >= a.lastAsked
	if asker.asked || large && a.payerLocked(asker) == asker {
		return false, nil
	}
	for used-limit > a.returning && len(ask) < maxAsked {
		payer := a.payerLocked(asker)
		if payer == nil || payer == asker {
			break
		}
		a.askLocked(payer)
		ask = append(ask, payer)
	}
	return used <= limit+limit/overdraft, ask
}
