package limits

import (
	"math"
	"sync/atomic"
	"time"
)

// Instant is a time on a monotonic clock in nanoseconds, since whenever the caller likes.
type Instant int64

// until returns the time from now to i; 0 if it has passed.
func (i Instant) until(now Instant) time.Duration { return time.Duration(max(i-now, 0)) }

// Bucket is a token bucket (the generic cell rate algorithm): it holds one period's worth of tokens of its rate, which fill it evenly.
// The zero value is full. Any goroutine may use it, without a lock. The caller gives its rate and the time.
type Bucket struct {
	full atomic.Int64 // the instant at which it is full again
}

// maxDebt is the longest time until an overdrawn bucket has recovered. It keeps sums in range.
const maxDebt = 365 * 24 * time.Hour

// cost returns how long the bucket takes to get n tokens, rounded down, so that a whole period's worth fits into the bucket.
func (r Rate) cost(n uint64) time.Duration {
	d := float64(n) * float64(r.Per) / float64(r.N)
	return time.Duration(min(d, float64(maxDebt)))
}

// Take takes a token. If there is none, it takes nothing, and returns the time until there is one.
func (b *Bucket) Take(now Instant, r Rate) (wait time.Duration) {
	if r.Unlimited() {
		return 0
	}
	for {
		before := b.full.Load()
		after := max(Instant(before), now) + Instant(r.cost(1))
		if wait = time.Duration(after-now) - r.Per; wait > 0 {
			return wait
		}
		if b.full.CompareAndSwap(before, int64(after)) {
			return 0
		}
	}
}

// PutBack gives back a token that was taken.
func (b *Bucket) PutBack(r Rate) {
	if !r.Unlimited() {
		b.full.Add(-int64(r.cost(1))) // at most full: Take and Spend begin with now
	}
}

// Spend takes n tokens, more than there are if need be. It returns the time until the bucket has recovered from that; 0 if it is not
// overdrawn. The next to spend waits that much longer: all who wait for the bucket take turns.
func (b *Bucket) Spend(now Instant, r Rate, n uint64) (wait time.Duration) {
	if r.Unlimited() {
		return 0
	}
	for {
		before := b.full.Load()
		after := min(max(Instant(before), now)+Instant(r.cost(n)), now+Instant(maxDebt))
		if b.full.CompareAndSwap(before, int64(after)) {
			return max(time.Duration(after-now)-r.Per, 0)
		}
	}
}

// isFull reports whether the bucket is full, as one that was never used.
func (b *Bucket) isFull(now Instant) bool { return Instant(b.full.Load()) <= now }

// change carries the bucket over from one rate to another: the tokens that are missing still are, but a bucket that was overdrawn
// is only empty. So no client waits for long because of what was allowed before, or because of what was not.
func (b *Bucket) change(now Instant, from, to Rate) {
	if from == to {
		return
	}
	for {
		before := b.full.Load()
		after := now
		if missing := Instant(before).until(now); missing > 0 && !from.Unlimited() && !to.Unlimited() {
			tokens := math.Ceil(float64(missing) * float64(from.N) / float64(from.Per))
			after += Instant(min(to.cost(uint64(tokens)), to.Per))
		}
		if b.full.CompareAndSwap(before, int64(after)) {
			return
		}
	}
}

// How much is spent at once, at most, of a rate of bytes or messages: what the rate allows in turn, within bounds.
const (
	turn         = 20 * time.Millisecond
	minTurnBytes = 512
	maxTurnBytes = 64 << 10
)

// TurnBytes returns how many bytes a client may send, at a rate of bytes, before it pays for them.
func (r Rate) TurnBytes() uint64 {
	if r.Unlimited() {
		return math.MaxInt64
	}
	return min(max(r.in(turn), minTurnBytes), maxTurnBytes)
}

// TurnMessages is TurnBytes for messages.
func (r Rate) TurnMessages() uint64 {
	if r.Unlimited() {
		return math.MaxInt64
	}
	return max(r.in(turn), 1)
}

// in returns the tokens that come in a time.
func (r Rate) in(d time.Duration) uint64 {
	return uint64(min(float64(r.N)*float64(d)/float64(r.Per), math.MaxInt64/2))
}
