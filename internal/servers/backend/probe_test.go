package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// runProbe by itself, in a bubble: its verdicts on the results of its probes.

// verdicts runs runProbe over results, one for each probe: "+" for success, "-" for failure, "0" for no room and "m" for a machine without descriptors. It returns
// what it told: "up" and "down", each with the number of the probe that it came after.
func verdicts(t *testing.T, p Probe, results string) (told []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var asked atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			runProbe(ctx, p, always, func(context.Context) error {
				n := asked.Add(1)
				switch results[n-1] {
				case '+':
					return nil
				case '0':
					return fmt.Errorf("full: %w", errNoRoom)
				case 'm':
					return errShort("socket", syscall.EMFILE)
				}
				return fmt.Errorf("failure %d", n)
			}, func(up bool, reason string) {
				if up {
					told = append(told, fmt.Sprintf("up after %d%s", asked.Load(), reason))
				} else {
					told = append(told, fmt.Sprintf("down after %d: %s", asked.Load(), reason))
				}
			})
		}()
		for int(asked.Load()) < len(results) {
			time.Sleep(p.Interval / 10)
			synctest.Wait()
		}
		cancel()
		<-done
	})
	return told
}

// always is a place for each probe.
func always(context.Context) (done func(), ok bool) { return func() {}, true }

func TestProbeVerdicts(t *testing.T) {
	t.Parallel()
	p := Probe{Interval: 10 * time.Second, Timeout: time.Second, Fall: 3, Rise: 2}
	for results, want := range map[string][]string{
		"+":             {"up after 1"}, // at once
		"+++++":         {"up after 1"}, // and only once
		"-":             nil,
		"--":            nil,
		"---":           {"down after 3: failure 3"},
		"------":        {"down after 3: failure 3"},
		"--+":           {"up after 3"}, // the first success, whatever came before it
		"+--+--+--":     {"up after 1"},
		"+--+---":       {"up after 1", "down after 7: failure 7"},
		"---+":          {"down after 3: failure 3"},
		"---+-+-+-":     {"down after 3: failure 3"},
		"---++":         {"down after 3: failure 3", "up after 5"},
		"+---++---++":   {"up after 1", "down after 4: failure 4", "up after 6", "down after 9: failure 9", "up after 11"},
		"0000":          nil,
		"+-0-0-":        {"up after 1", "down after 6: failure 6"}, // no room is no verdict: it neither counts
		"+--0--":        {"up after 1", "down after 5: failure 5"}, // nor begins the count anew
		"0+":            {"up after 2"},
		"mmmmmm":        nil, // nor is that this machine is short of something
		"+-m-m-":        {"up after 1", "down after 6: failure 6"},
		"---+0+":        {"down after 3: failure 3", "up after 6"},
		"0--0-00000000": {"down after 5: failure 5"},
	} {
		if got := verdicts(t, p, results); !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", results, got, want)
		}
	}
	p.Fall, p.Rise = 1, 1
	if got, want := verdicts(t, p, "+-+-"), []string{"up after 1", "down after 2: failure 2", "up after 3", "down after 4: failure 4"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

// The first probe comes at once, the others after the interval plus or minus a fifth, counted from the end of the last; none
// takes longer than its time-out.
func TestProbeTimes(t *testing.T) {
	t.Parallel()
	p := Probe{Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 3, Rise: 2}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		begun := time.Now()
		var last time.Time
		shortest, longest, count := time.Hour, time.Duration(0), 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			runProbe(ctx, p, always, func(ctx context.Context) error {
				if count++; count == 1 {
					if !time.Now().Equal(begun) {
						t.Errorf("the first probe comes after %v", time.Since(begun))
					}
				} else {
					pause := time.Since(last)
					shortest, longest = min(shortest, pause), max(longest, pause)
				}
				asked := time.Now()
				<-ctx.Done()
				if took := time.Since(asked); took != p.Timeout && !errors.Is(context.Cause(ctx), context.Canceled) {
					t.Errorf("took %v", took)
				}
				last = time.Now()
				return ctx.Err()
			}, func(bool, string) {})
		}()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		cancel()
		<-done
		// Of some 830, the shortest is above 8.1 s, or the longest below 11.9 s, once in 10^9 runs.
		if shortest < 8*time.Second || longest > 12*time.Second || shortest > 8100*time.Millisecond || longest < 11900*time.Millisecond {
			t.Errorf("pauses between %v and %v in %d probes", shortest, longest, count)
		}
	})
}

// A probe takes its place before its time begins, and gives it back. Without a place, nothing is asked and told.
func TestProbeTakesPlace(t *testing.T) {
	t.Parallel()
	p := Probe{Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 1, Rise: 1}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		asked, places, held := 0, 0, 0
		runProbe(ctx, p, func(ctx context.Context) (done func(), ok bool) {
			if places++; places < 3 {
				return nil, false
			}
			held++
			return func() { held-- }, pass(ctx, time.Minute) == nil
		}, func(ctx context.Context) error {
			if asked++; held != 1 {
				t.Errorf("probed with %d places", held)
			}
			return ctx.Err()
		}, func(up bool, reason string) {
			if !up {
				t.Errorf("it is down: %s", reason)
			}
			cancel()
		})
		if asked != 1 || places != 3 || held != 0 {
			t.Errorf("asked %d times, of %d places, and %d are kept", asked, places, held)
		}
	})
}

// It ends at once, in a probe or between two, and tells nothing of the probe that was cut short.
func TestProbeEnds(t *testing.T) {
	t.Parallel()
	p := Probe{Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 1, Rise: 1}
	for name, at := range map[string]time.Duration{"in a probe": time.Second, "between two": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				var told []bool
				go func() {
					defer close(done)
					runProbe(ctx, p, always, func(ctx context.Context) error { return pass(ctx, 2*time.Second) }, func(up bool, _ string) {
						told = append(told, up)
					})
				}()
				time.Sleep(at)
				cancel()
				begun := time.Now()
				<-done
				if took := time.Since(begun); took != 0 {
					t.Errorf("ended after %v", took)
				}
				if slices.Contains(told, false) {
					t.Error("the end counts as a failure")
				}
			})
		})
	}
}
