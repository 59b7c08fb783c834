//go:build linux

package scenes

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// All scenes. This machine may be busy with other tests, so that servers and the proxy have more time than [Options] gives them.
func TestScenes(t *testing.T) {
	report, err := Run(t.Context(), Options{Binary: program, Within: 45 * time.Second, Parallel: 8, Directory: t.TempDir(), Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	for _, s := range report {
		if errors.Is(s.Err, errSkipped) {
			t.Logf("scene %s: %v", s.Scene, s.Err)
		}
	}
}

// The proof must be able to fail: where a problem is not named, where one is named besides it or without trouble, and where one stays.
func TestFails(t *testing.T) {
	dieSoon := func(ctx context.Context, t *stage) error {
		err := usual(1)(ctx, t)
		time.AfterFunc(2*time.Second, func() { t.servers[0].Kill() })
		return err
	}
	alsoElsewhere := func(ctx context.Context, t *stage) error {
		err := errors.Join(kill(1)(ctx, t), t.operate(ctx, "service", "add", "tts", "--path", "/tts"), t.operate(ctx, "backend", "add", "gone", "ws://127.0.0.1:1", "--service", "tts", "--connections", "1"))
		if err != nil {
			return err
		}
		return t.proxy.Until(ctx, "both services are named", func() (bool, error) {
			all, err := t.problems(ctx)
			return len(all) > 1, err
		})
	}
	for want, c := range map[string]struct {
		scene
		Options
	}{
		"was not named within":  {scene{kind: "no-such-kind", set: usual(1), begin: kill(1)}, Options{Within: 5 * time.Second}},
		"named besides":         {scene{kind: diagnosis.ServiceDown, set: usual(1), begin: alsoElsewhere}, Options{Within: 45 * time.Second}},
		"still named":           {scene{kind: diagnosis.ServiceDown, set: usual(1), begin: kill(1), end: of(func(*stage) {})}, Options{Within: 20 * time.Second}},
		"named without trouble": {scene{set: dieSoon}, Options{Healthy: 45 * time.Second}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			c.name, c.Binary = want, program
			c.Healthy = cmp.Or(c.Healthy, time.Second)
			if r := play(t.Context(), c.withDefaults(), c.scene, t.TempDir(), kit.NewJournal(t.Output())); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
				t.Errorf("%+v", r)
			}
		})
	}
}
