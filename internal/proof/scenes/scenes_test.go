//go:build linux

package scenes

import (
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
		return errors.Join(kill(1)(ctx, t), t.operate(ctx, "service", "add", "tts", "--path", "/tts"), t.operate(ctx, "backend", "add", "gone", "ws://127.0.0.1:1", "--service", "tts", "--connections", "1"))
	}
	for want, s := range map[string]scene{
		"was not named within":  {kind: "no-such-kind", set: usual(1), begin: kill(1)},
		"named besides":         {kind: diagnosis.ServiceDown, set: usual(1), begin: alsoElsewhere},
		"still named":           {kind: diagnosis.ServiceDown, set: usual(1), begin: kill(1), end: of(func(*stage) {})},
		"named without trouble": {set: dieSoon},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s.name = want
			o := Options{Binary: program, Within: 10 * time.Second, Healthy: 8 * time.Second}.withDefaults()
			if r := play(t.Context(), o, s, t.TempDir(), kit.NewJournal(t.Output())); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
				t.Errorf("%+v", r)
			}
		})
	}
}
