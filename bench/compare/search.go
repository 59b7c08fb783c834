//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// A search starts with firstTotal messages per second from all sessions, and gives up below leastTotal.
const (
	firstTotal = 16_000
	leastTotal = 200
)

// promptly reports whether a proxy carried a load: every answer came, none later than a second, and 99 % of them within 50 ms.
func promptly(r loadResult, l load) bool {
	return r.broken() == nil && r.overload(l) == "" && r.Lost+r.Unsent == 0 && r.Connected == l.sessions && r.Latency.Max <= 1000 && r.Latency.P99 <= 50
}

// answer is the outcome of a trial.
type answer int

const (
	carried answer = iota
	missed         // by little: the machine may be the cause
	failed         // by far
)

// judge returns the outcome of a trial. A trial fails by far if sessions failed or fewer than nine of ten answers came in time.
func judge(r loadResult, l load) answer {
	switch {
	case promptly(r, l):
		return carried
	case r.broken() != nil || r.MessagesPerSecond < 0.9*l.rate*float64(l.sessions):
		return failed
	}
	return missed
}

// search finds the highest rate which a rival carries, with one process for all trials.
func search(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, l.sessions, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	var best observation
	var last error // of a failed trial, which is an outcome too
	highest, err := highestRate(firstTotal, leastTotal, st.resolution, func(total float64) (answer, error) {
		l.rate = total / float64(l.sessions)
		w.failed = nil // the last trial's failure says nothing about the next
		trial := w.offer(ctx, l)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if failure := w.Failure(); failure != nil {
			return failed, failure
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if last = errors.Join(trial, w.failed, w.seen.load.broken()); last != nil {
			return failed, nil
		}
		became := judge(w.seen.load, l)
		if became == carried {
			best = w.seen
		}
		return became, nil
	})
	if err != nil {
		return observation{}, errors.Join(err, last)
	}
	best.rate = highest
	return best, nil
}

// highestRate finds the highest rate at which a trial succeeds, to within the factor resolution. It doubles the rate until a trial
// fails, or halves it until one succeeds, and then halves the interval between. It tries a rate that was missed by little again once.
func highestRate(first, least, resolution float64, trial func(rate float64) (answer, error)) (float64, error) {
	good, bad := 0.0, math.Inf(1)
	for rate := first; ; {
		became, err := trial(rate)
		if err == nil && became == missed {
			became, err = trial(rate)
		}
		if err != nil {
			return 0, err
		}
		if became == carried {
			good = rate
		} else {
			bad = rate
		}
		switch {
		case good == 0 && rate/2 < least:
			return 0, fmt.Errorf("it does not even bear %.0f messages/s", bad)
		case good == 0:
			rate /= 2
		case math.IsInf(bad, 1):
			rate *= 2
		case bad/good <= resolution:
			return good, nil
		default:
			rate = math.Sqrt(good * bad)
		}
	}
}

// searchTime estimates how long a search takes.
func searchTime(l load) time.Duration {
	trial := l.duration + 800*time.Millisecond + time.Duration(l.sessions)*200*time.Microsecond
	return 2*time.Second + time.Duration(l.trials)*trial
}
