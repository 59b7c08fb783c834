package app

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// No proxy, session, loop or client of a test may outlive it.
func TestMain(m *testing.M) {
	wstest.ManyAtATime()
	goleak.VerifyTestMain(m)
}
