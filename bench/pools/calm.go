//go:build linux

package main

import (
	"log"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

const (
	calmTimeout = 10 * time.Minute // for a calm moment
	attempts    = 5                // at a measurement that is not disturbed
)

// calmly measures in a calm moment, if it can, and again if other processes disturbed it. It returns the outcome that they
// disturbed least.
func calmly(d design, goroutines int, o options) outcome {
	if o.calm == 0 {
		return measure(d, goroutines, o)
	}
	var best outcome
	for attempt := range attempts {
		awaitCalm(o.calm)
		got := measure(d, goroutines, o)
		if attempt == 0 || got.others < best.others {
			best = got
		}
		if disturbed := best.others > o.calm; !disturbed { // NaN if that is not known
			break
		}
		log.Printf("other processes used %.2f processors: again", got.others)
	}
	return best
}

// awaitCalm waits until other processes have used no more processors than that for two seconds.
func awaitCalm(most float64) {
	for end := time.Now().Add(calmTimeout); time.Now().Before(end); {
		before, err := child.ReadMachine()
		time.Sleep(2 * time.Second)
		if after, failed := child.ReadMachine(); err != nil || failed != nil || after.Others(before) <= most {
			return
		}
	}
}
