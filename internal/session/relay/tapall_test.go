package relay

import (
	"math"
	"os"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// tapAll runs all tests of this package with a tap on every session, and nothing may change. Try it after changes of the relay:
//
//	WSBOUNCER_TEST_TAP_ALL=1 go test -count=1 ./internal/session/relay
var tapAll = os.Getenv("WSBOUNCER_TEST_TAP_ALL") != ""

// tapAll taps all sessions of the rig.
func (r *rig) tapAll() {
	tap, err := r.sessions.Tap(tap.Options{Service: r.Service.Name, First: math.MaxInt, Text: 100})
	if err != nil {
		r.T.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for more := true; more; {
			_, more, _ = tap.Next(wstest.Context(r.T))
		}
	})
	r.T.Cleanup(func() {
		tap.Close()
		reader.Wait()
	})
}
