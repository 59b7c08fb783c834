package pool

// trial is whether a server gets one session only, to see whether it works again.
type trial uint8

const (
	noTrial    trial = iota
	trialOpen        // the next session is the one
	trialTaken       // it has begun, and no other may
)

// SetTrial lets one more session begin, and after that none, until it is called again. With one being false, sessions begin as usual.
// Besides, the pool must be usable.
func (p *Pool[C]) SetTrial(one bool) {
	p.update(func() {
		p.trial = noTrial
		if one {
			p.trial = trialOpen
		}
	})
}
