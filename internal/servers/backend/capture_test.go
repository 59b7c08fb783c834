package backend

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// capture keeps the log above level debug.
type capture struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (c *capture) Enabled(_ context.Context, level slog.Level) bool { return level > slog.LevelDebug }
func (c *capture) WithAttrs([]slog.Attr) slog.Handler               { return c }
func (c *capture) WithGroup(string) slog.Handler                    { return c }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprint(r.Level, " ", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			line += ": " + a.Value.String()
		}
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	return nil
}

// all returns the level, the message and the reason of each line.
func (c *capture) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// expect compares the lines with those that are wanted. One that ends with a colon may be followed by any reason.
func (c *capture) expect(t testing.TB, want ...string) {
	t.Helper()
	if got := c.all(); !alike(got, want) {
		t.Errorf("log: %q (%d lines); want %q", got[:min(len(got), 10)], len(got), want)
	}
}

// await waits for the lines where other goroutines write them, some time after what they tell of.
func (c *capture) await(t testing.TB, want ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the log is %q", c.all())
		}
	}()
	wstest.Eventually(t, fmt.Sprintf("the log is %q", want), func() bool { return alike(c.all(), want) })
}

func alike(got, want []string) bool {
	return slices.EqualFunc(got, want, func(line, want string) bool {
		return line == want || strings.HasSuffix(want, ": ") && strings.HasPrefix(line, want)
	})
}
