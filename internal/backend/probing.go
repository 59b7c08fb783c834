package backend

import "context"

// probing is the goroutine that probes a backend by one setting. A backend has one after the other: each waits until the one
// before has ended, so that their verdicts stay in order and whoever changes the setting need not wait.
type probing struct {
	probe *Probe // nil for not at all
	stop  context.CancelFunc
	done  chan struct{}
}

// probeBy has the backend probed by this setting from now on; nil for not at all. With anew, the backend is asked again at once
// even if the setting is the same, because it is dialed in another way now. It does not wait for a probe that is under way. It is
// called with updating held.
func (b *Backend) probeBy(probe *Probe, anew bool) {
	before := b.probing
	same := before == nil && probe == nil || before != nil && sameProbe(before.probe, probe)
	if same && (!anew || probe == nil) {
		return
	}
	ctx, stop := context.WithCancel(b.worker.ctx)
	next := &probing{probe: probe, stop: stop, done: make(chan struct{})}
	b.probing = next
	go func() {
		defer close(next.done)
		if before != nil {
			before.stop()
			<-before.done
			if !same && before.probe != nil {
				b.worker.probeEnded(probe != nil)
			}
		}
		if probe == nil {
			return
		}
		b.report.probes()
		prober(ctx, *probe, func(ctx context.Context) error { return b.probe(ctx, probe.URL) }, b.worker.probed)
	}()
}

// sameProbe tells whether two settings, each nil for none, ask the same in the same way.
func sameProbe(a, b *Probe) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.equal(b)
}

// probesEnd waits until no probe is under way, after the worker has stopped, or until ctx ends.
func (b *Backend) probesEnd(ctx context.Context) {
	b.updating.Lock()
	last := b.probing
	b.updating.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last.done:
	case <-ctx.Done():
	}
}
