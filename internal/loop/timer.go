package loop

import (
	"container/heap"
	"time"
)

// Timer calls a function on a loop at a time. It is made to be a field of what it times; the zero value is a timer that
// is not set. It may be used only on the loop that it was last set on, or moved to.
type Timer struct {
	loop  *Loop
	when  Instant
	f     func()
	index int // in the loop's heap, plus one; 0 when not set
}

// Instant is a time on a monotonic clock, in nanoseconds. It takes a third of the memory of a time.Time.
type Instant int64

// epoch is when the clock began; a little earlier, so that no Instant is 0.
var epoch = time.Now().Add(-time.Nanosecond)

// Now returns the time on the clock.
func Now() Instant { return Instant(time.Since(epoch)) }

// After returns the instant d later.
func (i Instant) After(d time.Duration) Instant { return i + Instant(d) }

// Until returns the time from now to the instant; negative when it has passed.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }

// Set has f called on loop l after d, instead of what the timer was set to before.
func (t *Timer) Set(l *Loop, d time.Duration, f func()) {
	t.set(l, Now().After(d), f)
}

// together is the distance of the times that SetRoughly rounds to.
const together = Instant(100 * time.Millisecond)

// SetRoughly is Set for what does not matter to a tenth of a second: it rounds up, so that thousands of timers which are
// due some time in the next minute wake the loop ten times a second, and not each for itself.
func (t *Timer) SetRoughly(l *Loop, d time.Duration, f func()) {
	when := Now().After(d) + together - 1
	t.set(l, when-when%together, f)
}

func (t *Timer) set(l *Loop, when Instant, f func()) {
	t.Stop()
	t.loop, t.when, t.f = l, when, f
	l.timers.add(t)
}

// Stop unsets the timer; its function is not called any more.
func (t *Timer) Stop() {
	if t.index > 0 {
		t.loop.timers.remove(t)
		t.f = nil
	}
}

// Active tells whether the timer is set.
func (t *Timer) Active() bool { return t.index > 0 }

// Take removes a set timer from its loop, so that Put can set it on another at the same time. It returns false
// when the timer is not set.
func (t *Timer) Take() bool {
	if t.index == 0 {
		return false
	}
	t.loop.timers.remove(t)
	return true
}

// Put sets a timer that was taken from another loop on loop l.
func (t *Timer) Put(l *Loop) {
	t.loop = l
	l.timers.add(t)
}

// timerHeap holds the set timers of a loop, the next to fire first, and one timer of the runtime that wakes the loop
// for it.
type timerHeap struct {
	heap  timerOrder
	alarm *time.Timer
	at    Instant // when alarm rings; 0 when it is not set
}

func (h *timerHeap) add(t *Timer) {
	heap.Push(&h.heap, t)
	h.arm(t.loop)
}

func (h *timerHeap) remove(t *Timer) { heap.Remove(&h.heap, t.index-1) }

// fire calls what is due at now.
func (h *timerHeap) fire(now Instant) {
	for len(h.heap) > 0 && h.heap[0].when <= now {
		t := heap.Pop(&h.heap).(*Timer)
		f, l := t.f, t.loop
		t.f = nil
		l.current, l.firing = nil, t
		f()
		l.firing = nil
	}
}

// arm sets the alarm for the first timer. An alarm that rings too early, because its timer was stopped, is harmless.
func (h *timerHeap) arm(l *Loop) {
	if len(h.heap) == 0 {
		return
	}
	next := h.heap[0].when
	if h.at != 0 && next >= h.at {
		return
	}
	h.at = next
	d := next.Until()
	if h.alarm == nil {
		h.alarm = time.AfterFunc(d, func() { l.Post(func() { h.ring(l) }) })
	} else {
		h.alarm.Reset(d)
	}
}

// ring runs on the loop when the alarm went off.
func (h *timerHeap) ring(l *Loop) {
	h.at = 0
	h.fire(Now())
	h.arm(l)
}

func (h *timerHeap) stop() {
	if h.alarm != nil {
		h.alarm.Stop()
	}
}

// timerOrder is the heap's order for container/heap.
type timerOrder []*Timer

func (o timerOrder) Len() int           { return len(o) }
func (o timerOrder) Less(i, j int) bool { return o[i].when < o[j].when }
func (o timerOrder) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (o *timerOrder) Push(x any) {
	t := x.(*Timer)
	*o = append(*o, t)
	t.index = len(*o)
}

// Pop implements heap.Interface.
func (o *timerOrder) Pop() any {
	old := *o
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*o = old[:len(old)-1]
	t.index = 0
	return t
}
