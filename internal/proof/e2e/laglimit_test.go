//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

const (
	lagClients  = 54
	lagServers  = 3
	lagCapacity = 24. // streams that a server answers in time
	lagSession  = 4   // seconds of audio
	lagBefore   = 9 * time.Second
	lagWithin   = 10 * time.Second // after a server has slowed down, new sessions are to be answered in time
	lagAfter    = 18 * time.Second
)

// TestLagCeiling has a server get more sessions than it can serve in time: it gets a ceiling, and no session is ended.
func TestLagCeiling(t *testing.T) {
	t.Parallel()
	p, _ := lagProxy(t, "1s", []float64{3 / lagCapacity, 1 / lagCapacity})
	ctx, cancel := context.WithCancel(t.Context())
	rate, pcm := lagAudio(t)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for range int(lagCapacity) {
		clients.Go(func() {
			session := speech.Session{
				URL: p.url("/stt"), SampleRate: rate, PCM: pcm, Chunk: 100 * time.Millisecond, Speed: 1, Heard: func(speech.Answer, time.Time) {},
			}
			for ctx.Err() == nil {
				if err := session.Run(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("a session was ended: %v", err)
					return
				}
			}
		})
	}
	wstest.Eventually(t, "the slow server has a ceiling", func() bool {
		b := p.backend("gpu-1")
		return b.CeilingCause == "lag" && b.Ceiling < b.Cap
	})
}

// TestLagLimit is a measurement: a server gets slower by three, beside two that have room for its clients. With a lag-limit of 2 s, sessions that begin
// 10 s later or more are answered in time, and none has been ended. The table of docs/sizing.md is what it logs. On a busy machine, sessions are late for
// other reasons.
func TestLagLimit(t *testing.T) {
	if os.Getenv("LAG_LIMIT") == "" {
		t.Skip("set LAG_LIMIT=1 to measure (make lag-limit)")
	}
	t.Parallel()
	var with, without *lagRun
	t.Run("runs", func(t *testing.T) {
		t.Run("without", func(t *testing.T) { t.Parallel(); without = newLagRun(t, "0s") })
		t.Run("with", func(t *testing.T) { t.Parallel(); with = newLagRun(t, "2s") })
	})
	if with == nil || without == nil {
		return
	}
	for name, r := range map[string]*lagRun{"lag-limit 2s": with, "no lag-limit": without} {
		t.Logf("%s: p95 lag %v before, and %v of the %d sessions that began 10 s later or more, %d of them on the slow server; %d sessions were ended or refused",
			name, p95(r.before).Round(10*time.Millisecond), p95(r.late).Round(10*time.Millisecond), r.begun, r.slow, r.failed)
		if r.failed > 0 {
			t.Errorf("%s: %d sessions were ended or refused", name, r.failed)
		}
	}
	if now := p95(with.late); now > 2*time.Second {
		t.Errorf("with lag-limit 2s, new sessions are answered %v late", now)
	}
	if now := p95(without.late); now < 4*time.Second {
		t.Errorf("without it, new sessions are answered %v late: the server is not slow enough", now)
	}
}

// lagRun is what clients saw.
type lagRun struct {
	mu           sync.Mutex
	before, late []time.Duration // lag of each answer, in sessions that ended before the server slowed down, and that began lagWithin after that
	failed       int
	begun, slow  int // sessions that began lagWithin after that, and those at the slow server
}

// lagProxy starts servers, whose streams take so much of a processor each, and a proxy for them.
func lagProxy(t *testing.T, limit string, slow []float64) (*proxy, []*sim.Server) {
	var b strings.Builder
	fmt.Fprintf(&b, "services:\n  stt: {path: /stt, profile: vosk, lag-limit: %s}\nbackends:\n", limit)
	var servers []*sim.Server
	for i := range slow {
		s, err := sim.Start(sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Slow: slow[i], Cores: 1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		servers = append(servers, s)
		fmt.Fprintf(&b, "  gpu-%d: {service: stt, url: 'ws://%s', connections: 40}\n", i+1, s.Addr())
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return startReady(t, "--database", path, "--state-directory", t.TempDir()), servers
}

// lagAudio returns what clients say.
func lagAudio(t *testing.T) (rate int, pcm []byte) {
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	return audio.SampleRate, audio.PCM[:min(len(audio.PCM), 2*audio.SampleRate*lagSession)]
}

func newLagRun(t *testing.T, limit string) *lagRun {
	p, servers := lagProxy(t, limit, slices.Repeat([]float64{1 / lagCapacity}, lagServers))
	rate, pcm := lagAudio(t)
	r := new(lagRun)
	begin := time.Now()
	slowed := begin.Add(lagBefore)
	var clients sync.WaitGroup
	for range lagClients {
		clients.Go(func() {
			time.Sleep(rand.N(lagSession * time.Second))
			for time.Since(slowed) < lagAfter {
				r.talk(p, rate, pcm, slowed)
			}
		})
	}
	time.Sleep(time.Until(slowed))
	servers[0].Slow(3 / lagCapacity)
	leased := func() uint64 {
		i := slices.IndexFunc(p.stats().Backends, func(b backendStats) bool { return b.Name == "gpu-1" })
		return p.stats().Backends[i].Totals.Leased
	}
	time.Sleep(time.Until(slowed.Add(lagWithin)))
	was := leased()
	clients.Wait()
	r.slow = int(leased() - was)
	return r
}

// talk holds a session.
func (r *lagRun) talk(p *proxy, rate int, pcm []byte, slowed time.Time) {
	var lags []time.Duration
	begun := time.Now()
	session := speech.Session{
		URL: p.url("/stt"), SampleRate: rate, PCM: pcm, Chunk: 100 * time.Millisecond, Speed: 1,
		Heard: func(_ speech.Answer, due time.Time) {
			if !due.IsZero() {
				lags = append(lags, time.Since(due))
			}
		},
	}
	err := session.Run(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
	}
	switch since := begun.Sub(slowed); {
	case since < -(lagSession+1)*time.Second: // it ended before
		r.before = append(r.before, lags...)
	case since > lagWithin:
		r.late = append(r.late, lags...)
		r.begun++
	}
}

// p95 returns the 95th percentile.
func p95(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*95/100]
}
