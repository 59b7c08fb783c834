//go:build linux

package upgradeproof

import (
	"context"
	"testing"
	"time"
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
