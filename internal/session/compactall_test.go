package session

import (
	"os"
	"sync"
)

// compactAll runs all tests of this package while sessions are moved to fresh memory all the time, and nothing may change. Try it after
// changes of what keeps pointers to sessions:
//
//	WSBOUNCER_TEST_COMPACT_ALL=1 go test -race ./internal/session
var compactAll = os.Getenv("WSBOUNCER_TEST_COMPACT_ALL") != ""

// compactAll moves the sessions of the rig until it closes.
func (r *rig) compactAll() {
	over := make(chan struct{})
	var mover sync.WaitGroup
	mover.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				r.server.Compact()
			}
		}
	})
	r.t.Cleanup(func() { // before that of the rig
		close(over)
		mover.Wait()
	})
}
