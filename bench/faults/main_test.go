package faults

import (
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestMain fails if a test leaves a goroutine of ours behind.
func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log to standard error, whatever logger Toxiproxy is given
	os.Exit(wstest.RunAndFindLeaks(m, toxiproxyLeaks()...))
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

// slack is the factor by which limits of time are loosened for a machine that is slow: with the race detector, everything in
// these tests' process, servers, Toxiproxy and clients included, takes several times longer.
func slack() time.Duration {
	if wstest.Race {
		return 3
	}
	return 1
}
