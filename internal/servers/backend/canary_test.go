package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// canaryRig is a backend that is played a sound, and its server.
func canaryRig(t *testing.T, o sim.Options, connections int, c Canary) (*rig, *sim.Server) {
	t.Helper()
	server, err := sim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	p, err := profile.Named(o.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	audio := &wav.Audio{SampleRate: 16000, Channels: 1, BitsPerSample: 16}
	for i := range 16000 / 2 {
		v := 12000 * math.Sin(2*math.Pi*440*float64(i)/16000)
		audio.PCM = binary.LittleEndian.AppendUint16(audio.PCM, uint16(int16(v)))
	}
	model := ""
	if p.Script().NamesModel() {
		model = sim.UnknownModel
	}
	if c.Recording, err = speaker.NewRecording(p, audio, MaxCanary, model); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, o.Protocol, func(options *Options, _ *wstest.Server) {
		target, err := handshake.ParseTarget(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		options.Target, options.Canary = target, &c
		if o.Nasty.SilentDeath > 0 { // it never closes
			options.CloseTimeout = time.Second
		}
		options.Settings = pool.Settings{Cap: connections, Warm: connections, Weight: 1}
	})
	return r, server
}

// A backend that answers stays in service, and its server never sees more connections than its cap, although all places are kept warm.
func TestCanaryPasses(t *testing.T) {
	t.Parallel()
	r, server := canaryRig(t, sim.Options{Protocol: sim.Vosk, Sessions: 2}, 2, Canary{Interval: 20 * time.Millisecond, Timeout: time.Minute})
	wstest.Eventually(t, "the canary passes", func() bool { return r.Health().Canary == "up" })
	if h := r.Health(); h.CanarySeconds <= 0 || !r.Stats().Usable {
		t.Errorf("%+v", h)
	}
	r.report.canaryNotPlayed("no place")
	wstest.Eventually(t, "why one was not played is forgotten when another passes", func() bool { return r.Health().CanaryReason == "" })
	if s := server.Stats(); s.Refused > 0 {
		t.Errorf("the server had to refuse %d connections", s.Refused)
	}
	r.Update(*r.options(), false)
	if o := *r.options(); o.Canary != nil {
		o.Canary = nil
		r.Update(o, false)
	}
	wstest.Eventually(t, "it is off", func() bool { return r.Health().Canary == "off" })
}

// A backend that does not answer as it should is taken out of service.
func TestCanaryFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server sim.Options
		canary Canary
		why    string
	}{
		// On a busy machine, dialing or the close of the idle connection that makes room for the canary may take as long.
		"hangs":      {sim.Options{Protocol: sim.Vosk, Nasty: sim.NastyOptions{SilentDeath: 1}}, Canary{Timeout: 30 * time.Millisecond}, "within 30ms"},
		"other text": {sim.Options{Protocol: sim.Vosk}, Canary{Timeout: time.Minute, Text: "Hello, world"}, `the results do not contain "Hello, world": "`},
		"fails":      {sim.Options{Protocol: sim.VLLMRealtime}, Canary{Timeout: time.Minute}, "the server says that the session has failed: "},
		"vanishes":   {sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Close: 1, CloseCode: 1011}}, Canary{Timeout: time.Minute}, "the server closed with code 1011"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.canary.Interval, c.canary.Fall = 20*time.Millisecond, 1
			r, _ := canaryRig(t, c.server, 2, c.canary)
			wstest.Eventually(t, "the canary fails", func() bool { return r.Health().Canary == "down" && !r.Stats().Usable })
			if why := r.Health().CanaryReason; !strings.Contains(why, c.why) {
				t.Errorf("%q; want %q", why, c.why)
			}
		})
	}
}

// A canary that has passed nowhere may be wrong itself: it takes no server out of service, until it has passed on one.
func TestUnprovenCanary(t *testing.T) {
	t.Parallel()
	proven := new(atomic.Bool)
	r, _ := canaryRig(t, sim.Options{Protocol: sim.Vosk}, 2, Canary{Interval: 20 * time.Millisecond, Timeout: time.Minute, Text: "another language", Fall: 1, Proven: proven})
	wstest.Eventually(t, "the canary is doubted", func() bool { return r.Health().Canary == canaryDoubtful })
	if h := r.Health(); !r.Stats().Usable || !strings.Contains(h.CanaryReason, "do not contain") {
		t.Errorf("%+v", h)
	}
	proven.Store(true)
	wstest.Eventually(t, "the canary fails", func() bool { return r.Health().Canary == "down" && !r.Stats().Usable })

	proven = new(atomic.Bool)
	r, _ = canaryRig(t, sim.Options{Protocol: sim.Vosk}, 2, Canary{Interval: 20 * time.Millisecond, Timeout: time.Minute, Proven: proven})
	wstest.Eventually(t, "the canary passes", func() bool { return r.Health().Canary == "up" })
	if !proven.Load() {
		t.Error("a canary that has passed is not proven")
	}
}

// A server that has stopped is found out within the canary's time-out, although it closes no connection to make a place, and may take as
// long as close-timeout for it.
func TestCanaryOfStoppedServer(t *testing.T) {
	t.Parallel()
	p, err := profile.Named(sim.Vosk)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := speaker.NewRecording(p, &wav.Audio{SampleRate: 16000, Channels: 1, BitsPerSample: 16, PCM: make([]byte, 32000)}, MaxCanary, "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, sim.Vosk, func(o *Options, _ *wstest.Server) { // whose server answers nothing by itself
		o.Canary = &Canary{Recording: recording, Interval: 20 * time.Millisecond, Timeout: 50 * time.Millisecond, Fall: 1}
		o.Settings = pool.Settings{Cap: 2, Warm: 2, Weight: 1}
	})
	wstest.Eventually(t, "the canary fails", func() bool { return r.Health().Canary == "down" && !r.Stats().Usable })
	// The first play may still find a place free, and then misses the first result or, on a busy machine, the connection.
	if why := r.Health().CanaryReason; !strings.Contains(why, "within 50ms") {
		t.Errorf("%q", why)
	}
}

// A backend of one connection is never played a canary, and one that is full says nothing about itself.
func TestCanaryNotPlayed(t *testing.T) {
	t.Parallel()
	r, _ := canaryRig(t, sim.Options{Protocol: sim.Vosk}, 1, Canary{Interval: time.Millisecond})
	wstest.Eventually(t, "it is not played", func() bool { return r.Health().CanaryReason == errNoSpare.Error() })
	if h := r.Health(); h.Canary != "unknown" {
		t.Errorf("%+v", h)
	}
}

func TestCanaryVerdicts(t *testing.T) {
	t.Parallel()
	for plays, want := range map[string]string{"+": "up", "-": "", "---": "down", "0-0-0-": "down", "---++": "down up", "+--+--+": "up"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			c := &Canary{}
			c.setDefaults()
			var told []string
			var played atomic.Int32
			var silent []string
			done := make(chan struct{})
			go func() {
				defer close(done)
				runCanary(ctx, c, func(context.Context) error {
					switch plays[min(int(played.Add(1)), len(plays))-1] {
					case '+':
						return nil
					case '0':
						return errNoSpare
					}
					return errors.New("fails")
				}, func(reason string) { silent = append(silent, reason) }, func(reason string) { t.Errorf("%s: doubt: %s", plays, reason) }, func(up bool, reason string) {
					told = append(told, map[bool]string{true: "up", false: "down"}[up])
				})
			}()
			for int(played.Load()) < len(plays) {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			cancel()
			<-done
			if got := strings.Join(told, " "); got != want {
				t.Errorf("%s: %q; want %q", plays, got, want)
			}
			if slices.Contains(silent, "") || len(silent) != strings.Count(plays, "0") {
				t.Errorf("%s: %q", plays, silent)
			}
		})
	}
}
