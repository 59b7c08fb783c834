package services

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// No server, session, loop or client of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is only a way out of a test that hangs: nothing waits for it.
const testTimeout = 20 * time.Second

// eventually waits for what cannot be waited for otherwise. It is the only place where the tests look again and again.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
