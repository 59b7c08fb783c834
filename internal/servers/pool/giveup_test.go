package pool

import (
	"strings"
	"testing"
)

// A slot can be given up from whatever state it is in, once, and the books stay exact.
func TestGiveUp(t *testing.T) {
	for name, bring := range map[string]func(*rig, *Slot[int]){
		"dialing":   func(*rig, *Slot[int]) {},
		"idle":      func(r *rig, s *Slot[int]) { r.filled(s) },
		"leased":    func(r *rig, s *Slot[int]) { r.filled(s); r.lease() },
		"resetting": func(r *rig, s *Slot[int]) { r.filled(s); r.lease(); reset(s) },
		"retiring":  func(r *rig, s *Slot[int]) { r.filled(s); s.Withdraw(Lost) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, Settings{Cap: 1, Warm: 1, Weight: 1})
			p := r.pools[0]
			s, _ := p.Reserve()
			bring(r, s)
			if got := s.State().String(); got != name {
				t.Fatalf("the slot is %s", got)
			}
			s.GiveUp()
			s.GiveUp()
			st := p.Stats()
			if st.Used() != 0 || s.State() != Gone || st.Totals.Leased != st.Totals.Returned+st.Totals.Discarded {
				t.Errorf("the books are %+v", st)
			}
			if sum := st.Totals.Reasons.Sum(); sum != st.Totals.Discarded+st.Totals.RetiredIdle {
				t.Errorf("%d reasons: %+v", sum, st)
			}
			if next, ok := p.Reserve(); !ok || next == s {
				t.Error("its place is not free")
			}
		})
	}
}

// Misuse of a slot changes nothing of the others, and leaves no lock held.
func TestMisuseIsUnharmed(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 2, Warm: 2, Weight: 1})
	p := r.pools[0]
	one, _ := p.Reserve()
	other, _ := p.Reserve()
	r.filled(one)
	r.filled(other)
	before := p.Stats()
	func() {
		defer func() {
			misuse, ok := recover().(Misuse)
			if !ok || !strings.HasPrefix(misuse.Error(), "pool: a slot that is idle was used") {
				t.Errorf("panic: %v", misuse)
			}
		}()
		one.Gone()
	}()
	if after := p.Stats(); after != before {
		t.Errorf("the books are %+v; before %+v", after, before)
	}
	one.GiveUp()
	if after := p.Stats(); after.Idle != 1 || after.Used() != 1 || other.State() != Idle {
		t.Errorf("the books are %+v", after)
	}
}
