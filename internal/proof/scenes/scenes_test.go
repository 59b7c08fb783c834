//go:build linux

package scenes

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// All scenes. This machine may be busy with other tests, so that servers and the proxy have more time than [Options] gives them. Lists are watched briefly:
// `make scenes` watches them for longer.
func TestScenes(t *testing.T) {
	report, err := Run(t.Context(), Options{Binary: program, Within: 45 * time.Second, Watch: leastWatch, Parallel: 8, Directory: t.TempDir(), Log: t.Output()})
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

// The proof must be able to fail: where a problem is not named, where one is named besides it, also later, or without trouble, where one stays, and where
// clients notice what they must not.
func TestFails(t *testing.T) {
	dieSoon := func(ctx context.Context, t *stage) error {
		if err := usual(1)(ctx, t); err != nil {
			return err
		}
		err := t.proxy.Until(ctx, "clients get answers", func() (bool, error) { return t.crowds[0].served(), nil })
		time.AfterFunc(2*time.Second, func() { t.servers[0].Kill() })
		return err
	}
	elsewhere := func(ctx context.Context, t *stage) error {
		return errors.Join(t.operate(ctx, "service", "add", "tts", "--path", "/tts"), t.operate(ctx, "backend", "add", "gone", "ws://127.0.0.1:1", "--service", "tts", "--connections", "1"))
	}
	alsoElsewhere := func(ctx context.Context, t *stage) error {
		if err := errors.Join(kill(1)(ctx, t), elsewhere(ctx, t)); err != nil {
			return err
		}
		return t.proxy.Until(ctx, "both services are named", func() (bool, error) {
			all, err := t.problems(ctx)
			return len(all) > 1, err
		})
	}
	thenElsewhere := func(ctx context.Context, t *stage) error {
		adding := kit.NewCrew(ctx)
		t.closers = append(t.closers, adding.End)
		adding.Go(func(ctx context.Context) {
			_ = t.look(ctx, kit.StartTimeout, func(all []api.Problem) (bool, error) { return len(all) > 0, nil })
			if kit.Wait(ctx, leastWatch) == nil {
				_ = elsewhere(ctx, t)
			}
		})
		return kill(1)(ctx, t)
	}
	down := scene{kind: diagnosis.ServiceDown, with: []diagnosis.Kind{diagnosis.Refusals, diagnosis.SessionsFailing}, set: usual(1), begin: kill(1)}
	also, then, stays, noticed := down, down, down, down
	also.begin, then.begin, stays.end, noticed.spared = alsoElsewhere, thenElsewhere, of(func(*stage) {}), true
	for name, c := range map[string]struct {
		want string
		scene
		Options
	}{
		"unnamed":         {"was not named within", scene{kind: "no-such-kind", set: usual(1), begin: kill(1)}, Options{Within: 5 * time.Second}},
		"besides":         {"named besides", also, Options{Within: 45 * time.Second}},
		"later":           {"named besides", then, Options{Within: 60 * time.Second}},
		"stays":           {"still named", stays, Options{Within: 20 * time.Second, Watch: time.Second}},
		"without trouble": {"named without trouble", scene{set: dieSoon}, Options{Healthy: 45 * time.Second}},
		"noticed":         {"sessions failed", noticed, Options{Within: 45 * time.Second, Watch: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.name, c.Binary = name, program
			c.Healthy = cmp.Or(c.Healthy, time.Second)
			if r := play(t.Context(), c.withDefaults(), c.scene, t.TempDir(), kit.NewJournal(t.Output())); r.Err == nil || !strings.Contains(r.Err.Error(), c.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Clients must notice nothing where they are spared, and must have had sessions.
func TestSpared(t *testing.T) {
	for _, test := range []struct {
		sessions []error
		want     string
	}{
		{nil, "no session"},
		{[]error{nil, nil}, ""},
		{[]error{nil, errors.New("cut"), errors.New("refused")}, "2 of 3 sessions failed, the first with: cut"},
	} {
		c := newCrowd()
		for _, err := range test.sessions {
			c.ended(err)
		}
		if err := c.spared(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v", test.sessions, err)
		}
	}
}
