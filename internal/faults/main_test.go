package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// TestMain sees to it that no test leaves a goroutine of ours behind.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log to standard error, whatever logger Toxiproxy is given
	status := m.Run()
	if status == 0 {
		if err := goleak.Find(toxiproxyLeaks()...); err != nil {
			fmt.Fprintln(os.Stderr, "left behind:", err)
			return 1
		}
	}
	return status
}

// toxiproxyLeaks are goroutines that Toxiproxy itself leaves behind: when a toxic ends a connection, the pieces that are on
// their way to the toxic are never taken. They hold no socket.
func toxiproxyLeaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	}
}

// patience is only a way out of a test that hangs: a test that passes never waits for it.
const patience = time.Minute

// eventually waits until the condition holds, and returns how long that took. It is the one place where these tests wait for
// what tells nobody when it happens.
func eventually(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !condition() {
		if time.Since(begun) > patience {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}

// slack is the factor by which limits of time are loosened for a machine that is slow: with the race detector, everything in
// these tests' process, servers, Toxiproxy and clients included, takes several times longer.
func slack() time.Duration {
	if raceDetector {
		return 3
	}
	return 1
}
