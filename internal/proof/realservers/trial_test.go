//go:build linux

package realservers

import (
	"context"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// simulated describes a simulated server.
func simulated(profile string, flags ...string) *Server {
	return &Server{
		Title: profile, Version: "1", Profile: profile, Path: "/", Pace: 20, Leaving: 0.2, name: profile, folder: ".", Start: flags,
		command: func(arguments []string) []string {
			port := arguments[len(arguments)-1]
			return append([]string{program, "sim", "--protocol", profile, "--quiet", "--listen", "127.0.0.1:" + port}, arguments[:len(arguments)-2]...)
		},
	}
}

func options(t *testing.T) Options {
	return Options{Binary: program, Cache: t.TempDir(), Sessions: 40, Log: kit.NewJournal(t.Output())}
}

func run(t *testing.T, s *Server) *Result {
	t.Helper()
	t.Parallel()
	return try(t.Context(), options(t), s)
}

// A server that does what its profile says passes.
func TestPasses(t *testing.T) {
	s := simulated("vosk")
	s.Watch = 2 * time.Second
	s.Full = Full{Start: []string{"--nasty", "full:2"}, Sessions: 2}
	r := run(t, s)
	if len(r.Faults) > 0 || r.Skipped != "" {
		t.Fatalf("%q %s", r.Faults, r.Skipped)
	}
	if r.Reuse.Held() != 40-r.Reuse.Left || r.Reuse.Same != r.Reuse.Held() || r.Reuse.Dialed > 40 {
		t.Errorf("reuse: %+v", r.Reuse)
	}
	if f := r.Failover; f == nil || f.Held() != clients || f.Moved == 0 {
		t.Errorf("failover: %+v", f)
	}
	if w := r.Warm; w == nil || w.Connections != waiting || w.BytesEach <= 0 || w.Waits == nil || w.Waits.Seconds < 2 || w.Waits.Closed+w.Waits.Dead != "" {
		t.Errorf("warm: %+v", w)
	}
}

// Faults that are planted are found: by the step that is to find them, which is the only one that runs.
func TestFinds(t *testing.T) {
	type step = func(*trial, context.Context, *Result) error
	for name, c := range map[string]struct {
		profile, habit string
		find           step
		unsafe         []string
		settings       map[string]any
	}{
		"ignores a reset":            {"vosk", "reset-ignored", (*trial).claims, nil, nil},
		"keeps state over a session": {"vosk", "sticky-settings", (*trial).claims, []string{"blind"}, nil},
		"answers late":               {"vllm-realtime", "early-done", (*trial).claims, []string{"doubt"}, nil},
		"overtakes":                  {"sherpa-onnx", "overtaken-final", (*trial).claims, nil, map[string]any{"reuse": "fenced"}},
		"closes in a message":        {"vosk", "close-mid-message:0.2", (*trial).reuse, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulated(c.profile, "--nasty", c.habit)
			s.Unsafe, s.Settings = c.unsafe, c.settings
			if c.profile == "vllm-realtime" {
				s.Model = "any"
			}
			tr := &trial{Server: s, Options: options(t), logs: t.TempDir(), seed: 1}
			defer tr.end(false)
			if err := tr.prepare(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if err := c.find(tr, t.Context(), new(Result)); err == nil {
				t.Error("nothing was found")
			} else {
				t.Log(err)
			}
		})
	}
}

// What a server does with a connection that waits must be what the profile says.
func TestKeeps(t *testing.T) {
	for _, c := range []struct {
		idle    time.Duration
		predial profile.Predial
		found   Waits
		ok      bool
	}{
		{0, profile.PredialIdle, Waits{Seconds: 60}, true},
		{0, profile.PredialIdle, Waits{Seconds: 20, Closed: "1011"}, false},
		{0, profile.PredialNever, Waits{Seconds: 20, Closed: "1011"}, true},
		{15 * time.Second, profile.PredialIdle, Waits{Seconds: 20, Closed: "1011"}, true},
		{20 * time.Second, profile.PredialIdle, Waits{Seconds: 20, Closed: "1011"}, false},
		{15 * time.Second, profile.PredialIdle, Waits{Seconds: 60}, false},
		{5 * time.Minute, profile.PredialIdle, Waits{Seconds: 60}, true},
		{5 * time.Minute, profile.PredialCostsSlot, Waits{Seconds: 60, Dead: "no answer"}, false},
	} {
		p := &profile.Profile{Predial: c.predial, Limits: profile.Limits{Idle: c.idle}}
		if err := (&trial{profile: p}).keeps(&c.found); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
