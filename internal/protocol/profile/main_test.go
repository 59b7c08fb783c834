package profile

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A session with its reset takes about a hundred steps, and rapid's own 30 end before anything happens. The command line is
	// read later and can say otherwise.
	if err := flag.Set("rapid.steps", "150"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// rapidChecks is how many sequences of actions rapid tries for each property: its flag -rapid.checks, by which long runs are
// asked for.
func rapidChecks() int {
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		panic(err)
	}
	return n
}
