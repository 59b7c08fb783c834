package pool

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

func (m *model) drawSettings(t *rapid.T) Settings {
	s := Settings{
		Cap:    rapid.IntRange(1, 5).Draw(t, "cap"),
		Warm:   rapid.IntRange(0, 4).Draw(t, "warm"),
		Weight: rapid.SampledFrom([]float64{1, 2, 0.5, 0}).Draw(t, "weight"),
	}
	if s.Shared = rapid.Bool().Draw(t, "shared"); s.Shared {
		s.Grant = rapid.IntRange(0, 6).Draw(t, "grant")
	}
	if m.variants {
		s.Variants = rapid.IntRange(0, 3).Draw(t, "variants")
	}
	return s
}

func (m *model) add(t *rapid.T) {
	if len(m.pools) == 4 {
		t.Skip("enough")
	}
	m.numbers++
	p := &modelPool{model: m, settings: m.drawSettings(t), usable: true, dialable: true, ramp: 1}
	p.known = []*modelVariant{{kept: p.settings.Variants == 0}}
	p.Pool = m.group.Add(fmt.Sprint(m.numbers), p.settings, func() { p.informed = false })
	m.pools, m.all = append(m.pools, p), append(m.all, p)
	m.serve(t)
}

func (m *model) remove(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	m.group.Remove(p.Pool)
	p.mode = Disabled
	m.serve(t)
	m.pools = slices.DeleteFunc(slices.Clone(m.pools), func(other *modelPool) bool { return other == p })
}

func (m *model) set(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	was := p.settings.Variants
	p.settings = m.drawSettings(t)
	switch {
	case p.settings.Variants == 0:
		p.know("").kept = true
		p.limitKept(p.know(""))
	case was == 0: // only from now on is it one of many
		p.know("").kept = false
		p.tidy()
	default:
		p.limitKept(nil)
	}
	p.Set(p.settings)
	m.serve(t)
}

func (m *model) setMode(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.mode = rapid.SampledFrom([]Mode{Enabled, Enabled, Draining, Disabled}).Draw(t, "mode")
	p.SetMode(p.mode)
	m.serve(t)
}

func (m *model) setUsable(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.usable = !p.usable
	p.SetUsable(p.usable)
	m.serve(t)
}

func (m *model) setDialable(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.dialable = !p.dialable
	p.SetDialable(p.dialable)
	m.serve(t)
}

func (m *model) setAhead(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.passive = !p.passive
	p.SetPredial(!p.passive)
	m.serve(t)
}

func (m *model) setRamp(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.ramp = rapid.SampledFrom([]float64{1, 0.5, 0.25}).Draw(t, "ramp")
	p.SetRamp(p.ramp)
	m.serve(t)
}

func (m *model) pass(t *rapid.T) { m.now += Instant(rapid.IntRange(1, 10).Draw(t, "time")) }

// work does what a backend's worker does when it is signalled: all there is to do.
func (m *model) work(t *rapid.T) {
	m.look(t, draw(t, "pool", m.all))
}

func (m *model) look(t *rapid.T, p *modelPool) {
	p.informed = true
	for m.reserved(t, p) {
	}
	for m.retired(t, p, m.idleSince()) {
	}
}

// idleSince is what workers retire surplus connections by.
func (m *model) idleSince() Instant { return m.now - m.maxIdle + 1 }

func (m *model) trial(t *rapid.T) {
	p := draw(t, "pool", m.all)
	p.informed = false // it is the worker who tries, and looks again
	variant := ""
	if kept := p.kept(); len(kept) > 0 {
		variant = kept[0].name
	}
	s, ok := p.ReserveTrial()
	m.reserve(t, p, s, ok, variant, p.room())
	m.serve(t)
}

func (m *model) probe(t *rapid.T) {
	p := draw(t, "pool", m.all)
	done, ok := p.ReserveProbe()
	if ok != p.room() {
		t.Fatalf("reserved for a probe: %v; want %v", ok, p.room())
	}
	if ok {
		p.slots = append(p.slots, &modelSlot{pool: p, state: Dialing, probed: done})
		m.serve(t)
	}
}

func (m *model) reserved(t *rapid.T, p *modelPool) bool {
	variant, want := m.wants(p)
	_, client := m.demands(p)
	s, ok := p.Reserve()
	m.reserve(t, p, s, ok, variant, want)
	if ok && client {
		m.use(p, variant)
	}
	m.serve(t)
	return ok
}

func (m *model) reserve(t *rapid.T, p *modelPool, s *Slot[int], ok bool, variant string, want bool) {
	if ok != want || ok && s.Variant() != variant {
		t.Fatalf("reserved: %v; want %v of variant %q", ok, want, variant)
	}
	if ok {
		p.know(variant)
		p.slots = append(p.slots, &modelSlot{slot: s, pool: p, state: Dialing, variant: variant})
	}
}

func (m *model) retired(t *rapid.T, p *modelPool, idleSince Instant) bool {
	s, reason := m.surplus(p, idleSince)
	n, ok := p.RetireSurplus(idleSince)
	p.retiredSlot(t, n, ok, s, reason)
	m.serve(t)
	return ok
}

func (p *modelPool) retiredSlot(t *rapid.T, number int, ok bool, s *modelSlot, reason Reason) {
	if ok != (s != nil) || ok && number != s.number {
		t.Fatalf("retired connection %d, %v; want %+v", number, ok, s)
	}
	if ok {
		p.retire(s, reason)
	}
}

func (m *model) retireSurplus(t *rapid.T) {
	m.retired(t, draw(t, "pool", m.all), m.now-Instant(rapid.IntRange(-1, 10).Draw(t, "for")))
}

func (m *model) retireOldest(t *rapid.T) {
	p, reason := draw(t, "pool", m.all), drawReason(t)
	n, ok := p.RetireOldest(reason)
	var oldest *modelSlot
	if len(p.idle) > 0 {
		oldest = p.idle[0]
	}
	p.retiredSlot(t, n, ok, oldest, reason)
	m.serve(t)
}
