package pool

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

func drawSettings(t *rapid.T) Settings {
	return Settings{
		Cap:    rapid.IntRange(1, 5).Draw(t, "cap"),
		Warm:   rapid.IntRange(0, 4).Draw(t, "warm"),
		Weight: rapid.SampledFrom([]float64{1, 2, 0.5, 0}).Draw(t, "weight"),
	}
}

func (m *model) add(t *rapid.T) {
	if len(m.pools) == 4 {
		t.Skip("enough")
	}
	m.numbers++
	p := &modelPool{settings: drawSettings(t), usable: true, dialable: true, ramp: 1}
	p.Pool = m.group.Add(fmt.Sprint(m.numbers), p.settings, func() { p.informed = false })
	m.pools, m.all = append(m.pools, p), append(m.all, p)
}

func (m *model) remove(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	m.group.Remove(p.Pool)
	p.mode = Disabled
	m.pools = slices.DeleteFunc(slices.Clone(m.pools), func(other *modelPool) bool { return other == p })
}

func (m *model) set(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.settings = drawSettings(t)
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
}

func (m *model) setRamp(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.ramp = rapid.SampledFrom([]float64{1, 0.5, 0.25}).Draw(t, "ramp")
	p.SetRamp(p.ramp)
}

func (m *model) pass(t *rapid.T) { m.now += Instant(rapid.IntRange(1, 10).Draw(t, "time")) }

// work does what a backend's worker does when it is signalled: all there is to do.
func (m *model) work(t *rapid.T) {
	m.look(t, draw(t, "pool", m.all))
}

func (m *model) look(t *rapid.T, p *modelPool) {
	p.informed = true
	for m.reserved(t, p, p.Reserve, m.wants(p)) {
	}
	for p.retired(t, m.idleSince()) {
	}
}

// idleSince is what workers retire surplus connections by.
func (m *model) idleSince() Instant { return m.now - m.maxIdle + 1 }

func (m *model) trial(t *rapid.T) {
	p := draw(t, "pool", m.all)
	p.informed = false // it is the worker who tries, and looks again
	m.reserved(t, p, p.ReserveTrial, p.room())
}

func (m *model) probe(t *rapid.T) {
	p := draw(t, "pool", m.all)
	done, ok := p.ReserveProbe()
	if ok != p.room() {
		t.Fatalf("reserved for a probe: %v; want %v", ok, p.room())
	}
	if ok {
		p.slots = append(p.slots, &modelSlot{pool: p, state: Dialing, probed: done})
	}
}

func (m *model) reserved(t *rapid.T, p *modelPool, reserve func() (*Slot[int], bool), want bool) bool {
	s, ok := reserve()
	if ok != want {
		t.Fatalf("reserved: %v; want %v", ok, want)
	}
	if ok {
		p.slots = append(p.slots, &modelSlot{slot: s, pool: p, state: Dialing})
	}
	return ok && m.wants(p)
}

func (p *modelPool) retired(t *rapid.T, idleSince Instant) bool {
	reason, want := p.surplus(idleSince)
	n, ok := p.RetireSurplus(idleSince)
	p.retiredOldest(t, n, ok, want, reason)
	return ok
}

func (p *modelPool) retiredOldest(t *rapid.T, number int, ok, want bool, reason Reason) {
	if ok != want || ok && number != p.idle[0].number {
		t.Fatalf("retired connection %d, %v; want %v, and the one used longest ago", number, ok, want)
	}
	if ok {
		p.retire(p.idle[0], reason)
	}
}

func (m *model) retireSurplus(t *rapid.T) {
	draw(t, "pool", m.all).retired(t, m.now-Instant(rapid.IntRange(-1, 10).Draw(t, "for")))
}

func (m *model) retireOldest(t *rapid.T) {
	p, reason := draw(t, "pool", m.all), drawReason(t)
	n, ok := p.RetireOldest(reason)
	p.retiredOldest(t, n, ok, len(p.idle) > 0, reason)
}
