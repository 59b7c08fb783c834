//go:build linux

package upgradeproof

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// The proof in short: two upgrades, a program that fails, and one that is killed in the middle.
func TestShort(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := Run(ctx, Options{
		Binary: program, Other: program, Sessions: 50, Rate: 30, Upgrades: 2, Every: 300 * time.Millisecond, Servers: 2, Cap: 60,
		Failures: true, Uncounted: true, Directory: t.TempDir(), Out: t.Output(),
	})
	if err != nil {
		t.Error(err)
	}
}

// One scene in which everything happens at once. It takes half a minute, so it runs with `make proof-race` only.
func TestOneScene(t *testing.T) {
	if !*raced {
		t.Skip("make proof-race runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	err := RunOutages(ctx, OutageOptions{
		Binary: program, Scenes: 1, Seed: 1, Sessions: 12, Servers: 3, Cap: 8, Settle: time.Second, Directory: t.TempDir(), Out: t.Output(),
	})
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Error(err)
	}
}
