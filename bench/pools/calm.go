package main

import (
	"log"
	"time"
)

const (
	patience = 10 * time.Minute // for a calm moment
	attempts = 5                // at a measurement that is not disturbed
)

// calmly measures in a calm moment, if it can, and again if others disturbed it. It returns the outcome that they disturbed
// least.
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
		if disturbed := best.others > o.calm; !disturbed { // that is not known everywhere
			break
		}
		log.Printf("others used %.2f processors: again", got.others)
	}
	return best
}

// awaitCalm waits until others have used no more processors than that for two seconds.
func awaitCalm(most float64) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, err := readMachine()
		time.Sleep(2 * time.Second)
		if after, failed := readMachine(); err != nil || failed != nil || after.others(before) <= most {
			return
		}
	}
}
