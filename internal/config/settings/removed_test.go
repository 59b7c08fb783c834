package settings

import (
	"slices"
	"testing"
)

// A setting that earlier versions had is refused with its place and what to use instead, whatever its value.
func TestRemovedSettings(t *testing.T) {
	got := given{file: "drain-timeout: 1m\ndrain-spread: 10s\n", environment: []string{"WSBOUNCER_TOTAL_MESSAGE_RATE=0", "WSBOUNCER_CLOSE_TIMEOUT=5s"}}.errors(t)
	for i, want := range []string{
		"w.yaml:2:1: the setting drain-spread no longer exists: " + removed["drain-spread"],
		"WSBOUNCER_CLOSE_TIMEOUT: the setting close-timeout no longer exists: " + removed["close-timeout"],
		"WSBOUNCER_TOTAL_MESSAGE_RATE: the setting total-message-rate no longer exists: " + removed["total-message-rate"],
	} {
		if len(got) != 3 || got[i] != want {
			t.Errorf("errors %q; want %q at %d", got, want, i)
		}
	}
	for name := range removed {
		if slices.Contains(Names(), name) {
			t.Errorf("%s exists", name)
		}
	}
}
