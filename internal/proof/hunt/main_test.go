package hunt

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// No server, client or relay of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a simulated server for the time of the test.
func serve(t testing.TB, protocol string, n sim.NastyOptions) *sim.Server {
	t.Helper()
	s, err := sim.Start(sim.Options{Protocol: protocol, Nasty: n, Silence: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// run hunts, and fails the test when that does not work.
func run(t testing.TB, o Options) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
