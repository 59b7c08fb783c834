package pool

// variantQueue is the clients that wait for connections of one variant. All of it is guarded by the group's mutex.
type variantQueue[C any] struct {
	variant string
	tenants heap[*tenantQueue[C]] // one for each tenant of these clients; the one to be served next is first

	// For queue.beginCount.
	count  uint64 // the count that coming belongs to
	coming int    // connections that are being dialed for these clients
}

// tenantQueue is the clients of one tenant in a variantQueue, in the order in which they came. All of it is guarded by the group's mutex.
type tenantQueue[C any] struct {
	tenant *tenant[C]
	parent *variantQueue[C]
	waiters[C]
	inVariant   int // its index in parent.tenants
	inContended int // its index in tenant.contended, if other tenants wait for the variant, too
}

// initVariantQueue makes a queue ready for use.
func initVariantQueue[C any](v *variantQueue[C], variant string) {
	v.variant = variant
	v.tenants.before = servedBefore[C]
	v.tenants.index = func(tq *tenantQueue[C]) *int { return &tq.inVariant }
}

// servedBefore is the order in which all tenantQueues are served: as their tenants, and the clients of one tenant in the order in
// which they came.
func servedBefore[C any](a, b *tenantQueue[C]) bool {
	if a.tenant == b.tenant {
		return a.first.ticket < b.first.ticket
	}
	return a.tenant.ranked.before(&b.tenant.ranked, a.first.ticket, b.first.ticket)
}

// ofVariant returns the queue for a variant, or nil when no client waits for it.
func (q *queue[C]) ofVariant(variant string) *variantQueue[C] {
	if variant == "" {
		return &q.base
	}
	return q.variants[variant]
}

// queueOf returns the tenant's clients that wait for a variant, or nil when none does.
func (t *tenant[C]) queueOf(variant string) *tenantQueue[C] {
	if variant == "" {
		if t.base.first == nil {
			return nil
		}
		return &t.base
	}
	return t.queues[variant]
}

// join puts a client into its queue.
func (q *queue[C]) join(w *Waiter[C]) {
	tq := w.tenant.queueOf(w.Variant)
	isNew := tq == nil
	if isNew {
		tq = q.newTenantQueue(w.tenant, w.Variant)
	}
	tq.insert(w, ofVariant)
	w.queue = tq
	switch {
	case isNew:
		tq.parent.add(tq)
	case tq.first == w:
		tq.parent.tenants.fix(tq)
	}
}

// newTenantQueue returns an empty queue.
func (q *queue[C]) newTenantQueue(t *tenant[C], variant string) *tenantQueue[C] {
	if variant == "" {
		t.base.tenant, t.base.parent = t, &q.base
		return &t.base
	}
	joined := q.variants[variant]
	if joined == nil {
		if q.variants == nil {
			q.variants = make(map[string]*variantQueue[C])
		}
		joined = new(variantQueue[C])
		initVariantQueue(joined, variant)
		q.variants[variant] = joined
	}
	tq := &tenantQueue[C]{tenant: t, parent: joined}
	if t.queues == nil {
		t.queues = make(map[string]*tenantQueue[C])
	}
	t.queues[variant] = tq
	return tq
}

// quit takes a client out of its queue.
func (q *queue[C]) quit(w *Waiter[C]) {
	tq := w.queue
	wasFirst, isEmpty := tq.first == w, tq.first == tq.last
	if isEmpty {
		tq.parent.drop(tq)
		if tq != &tq.tenant.base {
			delete(tq.tenant.queues, tq.parent.variant)
			if len(tq.parent.tenants.items) == 0 {
				delete(q.variants, tq.parent.variant)
			}
		}
	}
	tq.remove(w, ofVariant)
	if wasFirst && !isEmpty {
		tq.parent.tenants.fix(tq)
	}
	w.queue = nil
}

// add adds a queue that has its first client. Where several tenants wait, each knows its queue, since the order changes with what they use.
func (v *variantQueue[C]) add(added *tenantQueue[C]) {
	v.tenants.push(added)
	switch len(v.tenants.items) {
	case 1:
		return
	case 2:
		for _, other := range v.tenants.items {
			other.contend()
		}
	default:
		added.contend()
	}
}

// drop removes a queue. Its first client is still there.
func (v *variantQueue[C]) drop(dropped *tenantQueue[C]) {
	if len(v.tenants.items) > 1 {
		dropped.relax()
	}
	v.tenants.remove(dropped)
	if len(v.tenants.items) == 1 {
		v.tenants.items[0].relax()
	}
}

func (tq *tenantQueue[C]) contend() {
	tq.inContended = len(tq.tenant.contended)
	tq.tenant.contended = append(tq.tenant.contended, tq)
}

func (tq *tenantQueue[C]) relax() {
	all := tq.tenant.contended
	last := all[len(all)-1]
	all[tq.inContended], last.inContended = last, tq.inContended
	all[len(all)-1] = nil
	tq.tenant.contended = all[:len(all)-1]
}

// beginCount begins to count the connections that are being dialed for those who wait.
func (q *queue[C]) beginCount() { q.counts++ }

// count notes that connections of a variant are being dialed.
func (q *queue[C]) count(variant string, coming int) {
	if v := q.ofVariant(variant); v != nil {
		q.counted(v).coming += coming
	}
}

// covers reports whether one of the counted connections is for the client, and uses it up. It is called for the clients in their order.
func (q *queue[C]) covers(w *Waiter[C]) bool {
	v := q.counted(w.queue.parent)
	if v.coming <= 0 { // clients ahead may have used up more, see undialedAhead
		return false
	}
	v.coming--
	return true
}

func (q *queue[C]) counted(v *variantQueue[C]) *variantQueue[C] {
	if v.count != q.counts {
		v.count, v.coming = q.counts, 0
	}
	return v
}
