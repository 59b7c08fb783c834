package app

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A certificate's state is what clients make of it now.
func TestStateOf(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		from, to time.Duration
		want     string
	}{
		{-time.Hour, 90 * 24 * time.Hour, api.CertificateValid},
		{-90 * 24 * time.Hour, 24 * time.Hour, api.CertificateExpiring},
		{-90 * 24 * time.Hour, -time.Hour, api.CertificateExpired},
		{time.Hour, 90 * 24 * time.Hour, api.CertificateNotYet},
	} {
		if got := stateOf(now.Add(c.from), now.Add(c.to)); got != c.want {
			t.Errorf("from %v to %v: %s; want %s", c.from, c.to, got, c.want)
		}
	}
}
