package pool

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Stories of rapid that are long meet more of what takes many steps than more stories do. The command line is read later
	// and can say otherwise.
	if err := flag.Set("rapid.steps", "150"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
