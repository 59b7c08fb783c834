package verify

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// found returns a claim by its name.
func found(t *testing.T, r *Report, name string) Claim {
	t.Helper()
	i := slices.IndexFunc(r.Claims, func(c Claim) bool { return c.Name == name })
	if i < 0 {
		show(t, r)
		t.Fatalf("nothing is reported of %s", name)
	}
	return r.Claims[i]
}

// through returns the address of a simulated server with something in front of it.
func through(t *testing.T, server sim.Options, front *laggard) *handshake.Target {
	t.Helper()
	s, err := sim.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	front.server = s.Addr().String()
	target, err := handshake.ParseTarget("ws://" + front.start(t))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// recordings are those of some audio, up to a length.
func recordings(t *testing.T, o *Options, most time.Duration, audios ...*wav.Audio) {
	t.Helper()
	o.Recordings = nil
	for _, audio := range audios {
		r, err := speaker.NewRecording(o.Profile, audio, most, "")
		if err != nil {
			t.Fatal(err)
		}
		o.Recordings = append(o.Recordings, r)
	}
}

// silence is audio without sounds.
func silence() *wav.Audio {
	a := sounds(300 * time.Millisecond)
	clear(a.PCM)
	return a
}

// A server that can no longer be reached, after it has served sessions, has not kept what the profile claims: what was tried may have ended it.
func TestServerDies(t *testing.T) {
	t.Parallel()
	front := new(laggard)
	target := through(t, sim.Options{Protocol: sim.Deepgram}, front)
	r, err := try(t, sim.Deepgram, sim.Options{Protocol: sim.Deepgram}, func(o *Options) {
		target.AddQuery(o.Profile.Script().Query)
		o.Target = target
		o.Progress = func(what string) {
			if strings.HasPrefix(what, "move") {
				front.gone()
			}
		}
	})
	if move := found(t, r, "move"); err != nil || move.Verdict != Fails || !strings.Contains(move.Why, errGone.Error()) || r.Holds() {
		t.Errorf("%v, %+v, all holds: %t", err, move, r.Holds())
	}
}

// A recording without a word says nothing about what words would show: another one is used.
func TestSilenceComesFirst(t *testing.T) {
	t.Parallel()
	var altered atomic.Int64 // number of the connection; 0 for none, since a direct session has the first one
	front := &laggard{alter: func(n int, sent []byte) []byte {
		if n > 0 && int64(n) == altered.Load() {
			sent = bytes.ReplaceAll(sent, []byte("heard-"), []byte("other-"))
		}
		return sent
	}}
	target := through(t, sim.Options{Protocol: sim.Vosk}, front)
	r, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk}, func(o *Options) {
		o.Target = target
		recordings(t, o, time.Minute, silence(), sounds(300*time.Millisecond, 500*time.Millisecond))
		o.Progress = func(what string) {
			if what == "pace" {
				front.mu.Lock()
				defer front.mu.Unlock()
				altered.Store(int64(front.number))
			}
		}
	})
	if pace := found(t, r, "pace"); err != nil || pace.Verdict != Fails || !strings.Contains(pace.Why, "other-") {
		t.Errorf("%v, %+v", err, pace)
		show(t, r)
	}
}

// A server that hears no word in anything shows nothing.
func TestNothingHeard(t *testing.T) {
	t.Parallel()
	r, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk}, func(o *Options) { recordings(t, o, time.Minute, silence()) })
	if err == nil || r.Holds() {
		t.Errorf("%v", err)
		show(t, r)
	}
}

// A recording that is one message cannot be cut, so nothing is known of sessions that are.
func TestUncut(t *testing.T) {
	t.Parallel()
	r, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk}, func(o *Options) {
		recordings(t, o, o.Profile.Script().Chunk, sounds(300*time.Millisecond), sounds(400*time.Millisecond))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"move", "reset"} {
		if c := found(t, r, name); c.Verdict != NotTried || !strings.Contains(c.Why, errUncut.Error()) {
			t.Errorf("%+v", c)
		}
	}
}

// One session that ends in another way than the profile says is enough.
func TestEndOfEachSession(t *testing.T) {
	p, err := profile.Named(sim.Vosk)
	if err != nil {
		t.Fatal(err)
	}
	other := *p
	other.EndCloses = !p.EndCloses
	for _, p := range []*profile.Profile{p, &other} {
		for _, c := range []struct {
			closed, open int
			want         Verdict
		}{{1, 3, Fails}, {3, 1, Fails}, {0, 4, map[bool]Verdict{true: Fails, false: Holds}[p.EndCloses]}, {4, 0, map[bool]Verdict{true: Holds, false: Fails}[p.EndCloses]}} {
			r := newRun(t.Context(), Options{Profile: p})
			r.claims.End, r.ended[closes], r.ended[stays] = true, c.closed, c.open
			if r.end(); r.report.Claims[0].Verdict != c.want {
				t.Errorf("the server closes: %t, %+v: %+v", p.EndCloses, c, r.report.Claims[0])
			}
		}
	}
}

// Where a move may be visible, sessions that move must still have words.
func TestMovedSessionsHaveWords(t *testing.T) {
	t.Parallel()
	var moving atomic.Bool
	front := &laggard{alter: func(_ int, sent []byte) []byte {
		if moving.Load() {
			sent = bytes.ReplaceAll(sent, []byte(`"text":`), []byte(`"tixt":`))
		}
		return sent
	}}
	target := through(t, sim.Options{Protocol: sim.Soniox}, front)
	r, err := try(t, sim.Soniox, sim.Options{Protocol: sim.Soniox}, func(o *Options) {
		target.AddQuery(o.Profile.Script().Query)
		o.Target = target
		o.Progress = func(what string) { moving.Store(strings.HasPrefix(what, "move")) }
	})
	if move := found(t, r, "move"); err != nil || move.Verdict != Fails || !strings.Contains(move.Why, "no results any more") {
		t.Errorf("%v, %+v", err, move)
	}
}
