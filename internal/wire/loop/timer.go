package loop

import (
	"container/heap"
	"time"
)

// Timer notifies its owner when a time has come. It is meant to be a field of what it times. The zero value is a timer that is not
// set. Only the goroutine of its owner's loop may call its methods, and owns its fields.
type Timer struct {
	owner   Owner
	when    Instant
	index   int32 // in the loop's heap, plus one; 0 when not set, taken between Take and Put
	purpose Purpose
}

// taken is the index of a timer that Take has removed from its loop.
const taken = -1

// Purpose says what a timer was set for. Each owner numbers the purposes of its timers as it likes.
type Purpose uint8

// Owner owns timers. It is a [Conn] whose handler is a [TimerHandler], or something else that stays on one loop.
type Owner interface {
	// Loop returns the loop that the owner lives on.
	Loop() *Loop
	// Expired is called on that loop when one of the owner's timers expires. The timer is then no longer set.
	Expired(t *Timer)
}

// Instant is a time on a monotonic clock, in nanoseconds. It takes a third of the memory of a time.Time.
type Instant int64

// epoch is the Instant 0. It is a little before the program's start, so that Now is never 0.
var epoch = time.Now().Add(-time.Nanosecond)

// Now returns the present instant.
func Now() Instant { return Instant(time.Since(epoch)) }

// After returns the instant d later.
func (i Instant) After(d time.Duration) Instant { return i + Instant(d) }

// Until returns the time from now to the instant; negative when it has passed.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }

// Set calls the owner's Expired after d. It replaces what the timer was set to before.
func (t *Timer) Set(o Owner, d time.Duration, p Purpose) { t.set(o, Now().After(d), p) }

// rounding is what SetRoughly rounds times up to a multiple of.
const rounding = Instant(100 * time.Millisecond)

// SetRoughly is Set for a timer that may expire up to a tenth of a second late. It rounds the time up, so that thousands of
// timers wake the loop at most ten times a second.
func (t *Timer) SetRoughly(o Owner, d time.Duration, p Purpose) {
	when := Now().After(d) + rounding - 1
	t.set(o, when-when%rounding, p)
}

func (t *Timer) set(o Owner, when Instant, p Purpose) {
	t.Stop()
	t.owner, t.when, t.purpose = o, when, p
	t.start()
}

// start adds the timer to those of its owner's loop.
func (t *Timer) start() {
	l := t.owner.Loop()
	heap.Push(&l.timers.heap, t)
	l.timers.arm(l)
}

// Purpose returns what the timer was last set for.
func (t *Timer) Purpose() Purpose { return t.purpose }

// Stop stops the timer: Expired is not called.
func (t *Timer) Stop() {
	if t.Active() {
		heap.Remove(&t.owner.Loop().timers.heap, int(t.index)-1)
	}
	t.index = 0
}

// When returns when the timer expires; 0 if it is not set.
func (t *Timer) When() Instant {
	if !t.Active() {
		return 0
	}
	return t.when
}

// Active reports whether the timer is set.
func (t *Timer) Active() bool { return t.index > 0 }

// Take takes the timer off its loop if it is set. It is called before the owner moves to another loop, and Put once the
// owner has arrived there.
func (t *Timer) Take() {
	if t.Active() {
		t.Stop()
		t.index = taken
	}
}

// Put sets a timer that was taken, and not stopped since, on the loop that its owner lives on now. It expires when it would
// have expired before. A timer that was not set when Take was called stays so.
func (t *Timer) Put() {
	if t.index == taken {
		t.start()
	}
}

// timerHeap holds the set timers of a loop, the next to expire first, and one timer of the runtime that wakes the loop
// for it. It is owned by the loop's goroutine.
type timerHeap struct {
	heap  timerOrder
	alarm *time.Timer // nil until the first timer is set
	at    Instant     // when alarm is due; 0 when it is not set
}

// expire notifies the owners of the timers that are due at now.
func (h *timerHeap) expire(l *Loop, now Instant) {
	for len(h.heap) > 0 && h.heap[0].when <= now {
		t := heap.Pop(&h.heap).(*Timer)
		l.current, l.handler = nil, nil
		if c, ok := t.owner.(*Conn); ok {
			l.Handling(c)
		}
		t.owner.Expired(t)
	}
}

// arm sets the alarm for the first timer. If that is stopped later, the alarm goes off too early, which does no harm.
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

// ring is called on the loop after the alarm has gone off.
func (h *timerHeap) ring(l *Loop) {
	h.at = 0
	h.expire(l, Now())
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
	o[i].index, o[j].index = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (o *timerOrder) Push(x any) {
	t := x.(*Timer)
	*o = append(*o, t)
	t.index = int32(len(*o))
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
