package limits

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A wait that Take returns is exact: a nanosecond before, there is no token, and then there is.
func TestTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.Int64Range(1, 100_000).Draw(t, "n"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		var b Bucket
		begin := Instant(rapid.Int64Range(0, 1<<50).Draw(t, "begin"))
		now, taken := begin, int64(0)
		for range 3 {
			for b.Take(now, r) == 0 {
				taken++
			}
			if taken == 0 || taken < r.N {
				t.Fatalf("%v: %d at once", r, taken)
			}
			wait := b.Take(now, r)
			if b.Take(now+Instant(wait)-1, r) == 0 {
				t.Fatalf("%v: there was a token before %v had passed", r, wait)
			}
			now += Instant(wait)
			if b.Take(now, r) != 0 {
				t.Fatalf("%v: there is no token after %v", r, wait)
			}
			taken++
		}
		// Times are whole nanoseconds: a little more than the rate passes when it is large.
		if most := float64(r.N)*(1+float64(now-begin)/float64(r.Per))*1.001 + 1; float64(taken) > most {
			t.Fatalf("%v: %d in %v", r, taken, time.Duration(now-begin))
		}
	})
}

func TestNoLimit(t *testing.T) {
	var b Bucket
	if b.Take(5, Rate{}) != 0 || b.Spend(5, Rate{}, 1<<40) != 0 || !b.isFull(5) {
		t.Error("a bucket without a rate limits")
	}
}

// Clients that share a bucket get equal parts of its rate, however they begin, and together all of it: the bucket is a queue.
func TestSpendTakesTurns(t *testing.T) {
	const n, seconds = 7, 60
	r := Rate{1 << 20, time.Second}
	var b Bucket
	var ready, sent [n]uint64 // the instant from which each may send, and what it has sent
	for i := range ready {
		ready[i] = rand.Uint64N(uint64(time.Second))
	}
	for {
		next := 0
		for i := range ready {
			if ready[i] < ready[next] {
				next = i
			}
		}
		if ready[next] > uint64(seconds*time.Second) {
			break
		}
		sent[next] += r.TurnBytes()
		ready[next] += uint64(b.Spend(Instant(ready[next]), r, r.TurnBytes())) + 1
	}
	total := uint64(0)
	for i := range sent {
		total += sent[i]
	}
	if most := uint64(r.N) * (seconds + 1); total > most+n*r.TurnBytes() || total < most*98/100 {
		t.Errorf("%d bytes in %d s at %v, which holds a second's worth", total, seconds, r)
	}
	for i := range sent {
		if fair := total / n; sent[i] < fair*8/10 || sent[i] > fair*12/10 {
			t.Errorf("number %d sent %d of %d bytes, all: %v", i, sent[i], total, sent)
		}
	}
}

func TestTurns(t *testing.T) {
	for r, want := range map[Rate][2]uint64{
		{10, time.Second}: {512, 1}, {1000, time.Second}: {512, 20}, {1 << 20, time.Second}: {20971, 20971}, {1 << 30, time.Second}: {64 << 10, 21474836},
		{1, time.Hour}: {512, 1},
	} {
		if got := [2]uint64{r.TurnBytes(), r.TurnMessages()}; got != want {
			t.Errorf("%v: %v; want %v", r, got, want)
		}
	}
}

// A new rate holds at once: what was missing still is, and no client waits for what an old rate has lent.
func TestChange(t *testing.T) {
	slow, fast := Rate{10, time.Hour}, Rate{1000, time.Second}
	for name, c := range map[string]struct {
		spent    uint64
		from, to Rate
		wait     time.Duration // for a token afterwards
	}{
		"to more":       {10, slow, fast, 0},
		"to less":       {1000, fast, slow, 6 * time.Minute},
		"overdrawn":     {5000, fast, slow, 6 * time.Minute},
		"some left":     {4, slow, Rate{5, time.Hour}, 0},
		"from no limit": {0, Rate{}, slow, 0},
		"to no limit":   {5000, fast, Rate{}, 0},
		"unchanged":     {15, slow, slow, 36 * time.Minute},
	} {
		var b Bucket
		b.Spend(7, c.from, c.spent)
		b.change(7, c.from, c.to)
		if wait := b.Take(7, c.to); wait != c.wait {
			t.Errorf("%s: a wait of %v; want %v", name, wait, c.wait)
		}
	}
}

func TestDebtIsBounded(t *testing.T) {
	var b Bucket
	for range 100 {
		b.Spend(0, Rate{1, time.Hour}, 1<<40)
	}
	if wait := b.Spend(0, Rate{1, time.Hour}, 1); wait <= 0 || wait > maxDebt {
		t.Errorf("a wait of %v", wait)
	}
}
