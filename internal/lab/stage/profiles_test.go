package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// risks are what profiles need to have accepted before they reuse connections; the simulated servers do not show them here.
var risks = map[string]string{sim.FunASR: "doubt", sim.SherpaONNX: "quiet", sim.VLLMRealtime: "doubt", sim.Watson: "doubt", sim.SGLangRealtime: "doubt"}

// withProfile makes the proxy use a protocol's profile, with the risks accepted, if there are any. The simulated servers ask for no
// key, so that connections can be dialed ahead.
func withProfile(t *testing.T, protocol, accepted string, keys ...string) func(*app.Settings) {
	t.Helper()
	p, err := profile.Named(protocol)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Join(append([]string{""}, keys...), ", ")
	if p.Predial == profile.PredialWithKey {
		more = ", predial: idle"
	}
	if accepted != "" {
		more += ", unsafe: [" + accepted + "]"
	}
	if more == "" {
		return func(s *app.Settings) { s.Profile = protocol }
	}
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	text := fmt.Sprintf("profiles: {hunted: {from: %s%s}}\n", protocol, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(s *app.Settings) { s.Profile, s.ProfileFiles = "hunted", []string{file} }
}

// Through the built-in profiles, nothing reaches a session that is not its own, and those that end in order get their last
// result.
func TestProfiles(t *testing.T) {
	for _, protocol := range hunt.Dialogues() {
		t.Run(protocol, func(t *testing.T) {
			p, err := profile.Named(protocol)
			if err != nil {
				t.Fatal(err)
			}
			risk := risks[protocol]
			reused := p.Reuse != profile.OneShot || risk != ""
			sessions := 150
			if reused {
				sessions = 700
			}
			set := set(t, 16, Options{
				Server: sim.Options{Protocol: protocol, Jitter: time.Millisecond, Silence: time.Hour},
				Proxy:  withProfile(t, protocol, risk),
			})
			report := huntOn(t, set, hunt.Options{Protocol: protocol, Sessions: sessions, Seed: 6, Concurrency: 32, Settings: 0.02})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Completed != report.ByManner[hunt.CleanEnd] || report.Failed() > 0 || report.Refused > 0 {
				t.Error("not all sessions went as they should")
			}
			if accepted := set.Accepted(); reused && accepted > uint64(sessions/2) {
				t.Errorf("%d connections for %d sessions: they are not used again", accepted, sessions)
			}
		})
	}
}

// With the reset switched off, the same hunt finds leaks. DashScope's profile is not there: the tags of its messages keep them
// apart even so.
func TestProfilesWithoutReset(t *testing.T) {
	for _, protocol := range []string{sim.Echo, sim.Vosk, sim.FunASR, sim.FunASRRealtime, sim.SherpaONNX, sim.VLLMRealtime, sim.Watson, sim.SGLangRealtime} {
		t.Run(protocol, func(t *testing.T) {
			accepted := "blind"
			if risk := risks[protocol]; risk != "" {
				accepted += ", " + risk
			}
			set := set(t, 4, Options{
				Server: sim.Options{Protocol: protocol, Jitter: time.Millisecond, Silence: time.Hour},
				Proxy:  withProfile(t, protocol, accepted),
			})
			report := huntOn(t, set, hunt.Options{Protocol: protocol, Sessions: 3000, Seed: 6, Timeout: 300 * time.Millisecond})
			if report.Leaks == 0 {
				t.Error("no leak was found")
			}
		})
	}
}

// What servers are known to do, or could, that each profile is proof against: still nothing reaches the wrong session. What a
// profile says that it is not proof against (doubt), and what no proxy could tell, is not here.
func TestProfilesAgainstNastyServers(t *testing.T) {
	for _, test := range []struct{ protocol, nasty string }{
		{sim.Vosk, "sticky-settings"},
		{sim.Vosk, "reset-ignored:0.1"},
		{sim.Vosk, "silent-death:0.01"},
		{sim.Vosk, "close-mid-message:0.02"},
		{sim.FunASR, "reset-ignored:0.1"},
		{sim.FunASR, "reset-foreign:0.3"},
		{sim.FunASR, "silent-death:0.01,close-mid-message:0.02"},
		{sim.FunASRRealtime, "silent-death:0.01,close-mid-message:0.02"},
		{sim.SherpaONNX, "late-partials:0.3"},
		{sim.SherpaONNX, "overtaken-final:0.3"},
		{sim.SherpaONNX, "reset-foreign:0.3"},
		{sim.DashScope, "late-partials:0.3,overtaken-final:0.3"},
		{sim.DashScope, "reset-foreign:0.3"},
		{sim.DashScope, "reset-ignored:0.1,silent-death:0.01,close-mid-message:0.02"},
		{sim.VLLMRealtime, "late-partials:0.3"},
		{sim.VLLMRealtime, "greeting-delayed:0.1"},
		{sim.VLLMRealtime, "reset-ignored:0.1,silent-death:0.01"},
		{sim.Watson, "late-partials:0.3,overtaken-final:0.3"},
		{sim.Watson, "reset-foreign:0.3"},
		{sim.SGLangRealtime, "full:8,greeting-delayed:0.1,reset-ignored:0.1,silent-death:0.01"},
		{sim.WhisperLive, "full:8,greeting-delayed:0.1"},
		{sim.Kyutai, "full:8,greeting-delayed:0.1"},
		{sim.KaldiGStreamer, "full:8"},
		{sim.KyutaiTTS, "full:8,greeting-delayed:0.1"},
		{sim.Cartesia, "reset-foreign:0.3"},
		{sim.Cartesia, "full:8"},
		{sim.ElevenLabsTTS, "reset-foreign:0.3"},
		{sim.ElevenLabsTTS, "reset-ignored:0.1,silent-death:0.01,close-mid-message:0.02"},
	} {
		t.Run(test.protocol+" "+test.nasty, func(t *testing.T) {
			nasty, err := sim.ParseNasty(test.nasty)
			if err != nil {
				t.Fatal(err)
			}
			set := set(t, 16, Options{
				Server: sim.Options{Protocol: test.protocol, Nasty: nasty, Jitter: time.Millisecond, Silence: time.Hour},
				Proxy:  withProfile(t, test.protocol, risks[test.protocol], "reset: {timeout: 300ms}"),
			})
			report := huntOn(t, set, hunt.Options{
				Protocol: test.protocol, Sessions: 150, Seed: 7, Concurrency: 32, Settings: 0.02, Timeout: time.Second,
			})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Completed == 0 {
				t.Error("no session got its last result")
			}
			if report.Busy > 0 {
				t.Errorf("%d clients were told by the server itself that it is full", report.Busy)
			}
		})
	}
}
