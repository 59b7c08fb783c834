package loop

import (
	"container/heap"
	"time"
)

// Timer calls a function on a loop at a time. It is made to be a field of what it times; the zero value is a timer that
// is not set. It may be used only on the loop that it was last set on, or moved to.
type Timer struct {
	loop  *Loop
	when  time.Time
	f     func()
	index int // in the loop's heap, plus one; 0 when not set
}

// Set has f called on loop l after d, instead of what the timer was set to before.
func (t *Timer) Set(l *Loop, d time.Duration, f func()) {
	t.Stop()
	t.loop, t.when, t.f = l, time.Now().Add(d), f
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

// Take removes a set timer from its loop, so that Put can set it on another at the same time of day. It returns false
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
	at    time.Time // when alarm rings; zero when it is not set
}

func (h *timerHeap) add(t *Timer) {
	heap.Push(&h.heap, t)
	h.arm(t.loop)
}

func (h *timerHeap) remove(t *Timer) { heap.Remove(&h.heap, t.index-1) }

// fire calls what is due at now.
func (h *timerHeap) fire(now time.Time) {
	for len(h.heap) > 0 && !h.heap[0].when.After(now) {
		t := heap.Pop(&h.heap).(*Timer)
		f := t.f
		t.f = nil
		f()
	}
}

// arm sets the alarm for the first timer. An alarm that rings too early, because its timer was stopped, is harmless.
func (h *timerHeap) arm(l *Loop) {
	if len(h.heap) == 0 {
		return
	}
	next := h.heap[0].when
	if !h.at.IsZero() && !next.Before(h.at) {
		return
	}
	h.at = next
	d := time.Until(next)
	if h.alarm == nil {
		h.alarm = time.AfterFunc(d, func() { l.Post(func() { h.ring(l) }) })
	} else {
		h.alarm.Reset(d)
	}
}

// ring runs on the loop when the alarm went off.
func (h *timerHeap) ring(l *Loop) {
	h.at = time.Time{}
	h.fire(time.Now())
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
func (o timerOrder) Less(i, j int) bool { return o[i].when.Before(o[j].when) }
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
