package services

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// With a session-age, no session begins on a connection that has reached half of it.
func TestConnectionAge(t *testing.T) {
	for _, c := range []struct{ age, session, want time.Duration }{
		{time.Hour, 0, time.Hour},
		{0, 0, 0},
		{time.Hour, 10 * time.Minute, 5 * time.Minute},
		{0, 10 * time.Minute, 5 * time.Minute},
		{time.Minute, 10 * time.Minute, time.Minute},
	} {
		if got := connectionAge(&config.Service{ConnectionMaxAge: c.age, SessionAge: c.session}); got != c.want {
			t.Errorf("connection-max-age %v, session-age %v: %v", c.age, c.session, got)
		}
	}
}
