package stage

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// set starts a stage for a hunt, with a number of connections to each server. The stage ends with the test.
func set(t testing.TB, connections int, o Options) *Stage {
	t.Helper()
	change := o.Proxy
	o.Proxy = func(s *app.Settings) {
		ForHunt(s, connections)
		change(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// huntOn hunts on a stage, and fails the test when that does not work.
func huntOn(t testing.TB, s *Stage, o hunt.Options) hunt.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	o.URL = s.URL()
	report, err := hunt.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%sconnections: %d", report.String(), s.Accepted())
	return report
}

// A connection that serves one session leaks nothing, whatever the server does, and its sessions are as good as without the
// proxy.
func TestOneShot(t *testing.T) {
	for _, protocol := range hunt.Dialogues() {
		t.Run(protocol, func(t *testing.T) {
			s := set(t, 4, Options{
				Server: sim.Options{Protocol: protocol, Nasty: sim.NastyOptions{LatePartials: 0.5, OvertakenFinal: 0.2}, Silence: time.Hour},
				Proxy: func(s *app.Settings) {
					s.Profile = "one-shot"
					if protocol == sim.FunASR {
						s.Subprotocol = "binary"
					}
				},
			})
			report := huntOn(t, s, hunt.Options{Protocol: protocol, Sessions: 150, Settings: 0.5, Seed: 3})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Completed != report.ByManner[hunt.CleanEnd] || report.Failed() > 0 || report.Refused > 0 {
				t.Error("not all sessions went as they should")
			}
		})
	}
}

// Over connections that are used again.
func TestEcho(t *testing.T) {
	s := set(t, 4, Options{Proxy: func(s *app.Settings) { s.Profile = "echo" }})
	report := huntOn(t, s, hunt.Options{Protocol: sim.Echo, Sessions: 2_000, Seed: 4})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Completed != report.ByManner[hunt.CleanEnd] || report.Failed() > 0 {
		t.Error("not all sessions went as they should")
	}
	if accepted := s.Accepted(); accepted > uint64(report.Sessions/2) {
		t.Errorf("%d connections for %d sessions: they are not used again", accepted, report.Sessions)
	}
}

// With TLS on both sides sessions go as they do without, whatever version of TLS their clients speak, and however they leave.
func TestTLS(t *testing.T) {
	s := set(t, 4, Options{TLS: true, Proxy: func(s *app.Settings) { s.Profile = "echo" }})
	report := huntOn(t, s, hunt.Options{TLS: s.ClientTLS(), Protocol: sim.Echo, Sessions: 500, Seed: 4})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Completed != report.ByManner[hunt.CleanEnd] || report.Failed() > 0 {
		t.Error("not all sessions went as they should")
	}
	if accepted := s.Accepted(); accepted > uint64(report.Sessions/2) {
		t.Errorf("%d connections for %d sessions: they are not used again", accepted, report.Sessions)
	}
}

// With a profile that does not fit, the hunt does find leaks: this server says more than the profile knows of.
func TestWrongProfile(t *testing.T) {
	s := set(t, 1, Options{
		Server: sim.Options{Protocol: sim.SherpaONNX}, Servers: 1,
		Proxy: func(s *app.Settings) { s.Profile = "echo" },
	})
	report := huntOn(t, s, hunt.Options{Protocol: sim.SherpaONNX, Sessions: 20_000, Seed: 5, Timeout: 100 * time.Millisecond})
	if report.Leaks == 0 {
		t.Error("no leak was found")
	}
}

func TestStartFails(t *testing.T) {
	for want, o := range map[string]Options{
		"starting a simulated server: unknown protocol": {Server: sim.Options{Protocol: "chat"}},
		"starting the proxy: --profile":                 {Proxy: func(s *app.Settings) { s.Profile = "chat" }},
	} {
		if s, err := Start(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			if err == nil {
				s.Close()
			}
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if !slices.Contains(profile.Names(), "one-shot") {
		t.Error("the profile one-shot no longer exists")
	}
}
