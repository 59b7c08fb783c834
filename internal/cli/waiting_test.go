package cli

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedProxy answers with one of several statistics after another, the last one again and again.
type playedProxy struct {
	answers []any // api.Stats or error
	asked   int
}

func (p *playedProxy) Get(_ context.Context, _ string, _ url.Values, to any) error {
	answer := p.answers[min(p.asked, len(p.answers)-1)]
	p.asked++
	if err, ok := answer.(error); ok {
		return err
	}
	*to.(*api.Stats) = answer.(api.Stats)
	return nil
}

func backends(all ...api.Backend) api.Stats { return api.Stats{Backends: all} }

func leased(name, state string, sessions int) api.Backend {
	return api.Backend{
		Name: name, Health: api.Health{Reachable: true, Circuit: "closed"},
		Pool: api.Pool{State: state, Usable: state == "enabled", Weight: 1, Ceiling: 32, Warm: 32, Leased: sessions},
	}
}

// waitFor runs a waiter in a bubble, and returns what it says, its error and how long it took.
func waitFor(t *testing.T, to transition, timeout time.Duration, answers ...any) (messages string, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		begun := time.Now()
		w := waiter{
			proxy: &playedProxy{answers: answers}, names: []string{"gpu-2", "gpu-1"}, to: to, version: "7",
			timeout: timeout, every: pollEvery, messages: &b,
		}
		err = w.run(t.Context())
		messages, took = b.String(), time.Since(begun)
	})
	return messages, took, err
}

func TestWaitForSessions(t *testing.T) {
	one := leased("gpu-1", "draining", 0)
	messages, took, err := waitFor(
		t, draining, time.Minute,
		backends(leased("gpu-1", "enabled", 3), leased("gpu-2", "draining", 3)), // not taken over yet
		&client.UnreachableError{Address: "x", Reason: errors.New("it is started again")},
		backends(one, leased("gpu-2", "draining", 2)),
		backends(one, leased("gpu-2", "draining", 2)),
		backends(one, leased("gpu-2", "draining", 1)),
		backends(one, leased("gpu-2", "draining", 0)),
	)
	if err != nil || took != 5*pollEvery {
		t.Errorf("%v after %v", err, took)
	}
	same(t, "what it says", messages, `
gpu-1: version 7 is not in force yet; gpu-2: 3 sessions left
gpu-2: 1 session left
gpu-2, gpu-1: done after 1.3s`)
}

// What is reset counts as a session, and disabled is as draining.
func TestWaitForResets(t *testing.T) {
	resetting := leased("gpu-1", "disabled", 0)
	resetting.Resetting = 1
	messages, _, err := waitFor(t, disabling, time.Minute, backends(resetting, leased("gpu-2", "disabled", 0)),
		backends(leased("gpu-1", "disabled", 0), leased("gpu-2", "disabled", 0)))
	if err != nil || !strings.Contains(messages, "gpu-1: 1 session left\n") {
		t.Errorf("%v, %s", err, messages)
	}
}

func TestWaitTooLong(t *testing.T) {
	messages, took, err := waitFor(t, draining, time.Minute, backends(leased("gpu-1", "draining", 5), leased("gpu-2", "draining", 0)))
	const want = "not done after 1m0s: gpu-1: 5 sessions left; the configuration change stays in force"
	if err == nil || err.Error() != want || took != time.Minute {
		t.Errorf("%v after %v; want %s", err, took, want)
	}
	if n := strings.Count(messages, "gpu-1: 5 sessions left\n"); n < 4 || n > 5 { // the last is at the very end
		t.Errorf("it is said %d times in a minute:\n%s", n, messages)
	}
}

func TestWaitForConnections(t *testing.T) {
	warm := func(name string, idle int) api.Backend {
		b := leased(name, "enabled", 4)
		b.Idle = idle
		return b
	}
	unwell := warm("gpu-1", 0)
	unwell.Reachable, unwell.Reason = false, "connection refused"
	messages, _, err := waitFor(t, enabling, time.Hour, backends(unwell, warm("gpu-2", 28)), backends(warm("gpu-1", 27), warm("gpu-2", 28)),
		backends(warm("gpu-1", 28), warm("gpu-2", 28)))
	if err != nil || !strings.Contains(messages, "gpu-1: 0 of 28 warm connections (unreachable: connection refused)\n") {
		t.Errorf("%v, %s", err, messages)
	}
}

// A backend that is dialed for clients only is back before the first of them comes.
func TestWaitForNoConnections(t *testing.T) {
	b := leased("gpu-1", "enabled", 0)
	b.Warm, b.Reachable, b.Reason = 0, false, "not dialed yet"
	other := b
	other.Name = "gpu-2"
	if messages, took, err := waitFor(t, enabling, time.Hour, backends(b, other)); err != nil || took > time.Minute {
		t.Errorf("%v after %v, %s", err, took, messages)
	}
}

// A command does not wait for what cannot come.
func TestWaitForTheImpossible(t *testing.T) {
	refused := errors.New("refused")
	if _, took, err := waitFor(t, draining, time.Hour, refused); !errors.Is(err, refused) || took != 0 {
		t.Errorf("%v after %v", err, took)
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		b             api.Health
		health, about string
	}{
		{api.Health{Reachable: true, Circuit: "closed", Probe: "up"}, "healthy", ""},
		{api.Health{Reachable: true, Circuit: "half-open", CircuitReason: "a", Probe: "down"}, "circuit half-open", "a"},
		{api.Health{Reachable: true, Circuit: "closed", Probe: "down", ProbeReason: "b"}, "probe fails", "b"},
		{api.Health{Circuit: "closed", Probe: "off", Reason: "c"}, "unreachable", "c"},
	} {
		if got := c.b.Condition(); got.Word != c.health || got.Why != c.about {
			t.Errorf("%+v: %+v; want %s, %s", c.b, got, c.health, c.about)
		}
	}
}

// States of backends, through all of it.
func TestStates(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		same(t, "drain", s.must("backend drain gpu-1 gpu-2"), "backend gpu-1: state enabled -> draining\nbackend gpu-2: state enabled -> draining\nVersion 4 -> 5")
		same(t, "enable", s.must("backend enable --selector zone=a"), "backend gpu-1: state draining -> enabled\nVersion 5 -> 6")
		same(t, "disable", s.must("backend disable gpu-2 --dry-run"), "backend gpu-2: state draining -> disabled\nDry run: nothing was changed. The configuration has version 6.")
		same(t, "again", s.must("backend enable gpu-1"), "Nothing to change. The configuration has version 6.")
		s.refuse(
			refusal{[]string{"backend", "drain", "gpu-1", "gpu-3"}, 1, `unknown backend "gpu-3": did you mean "gpu-1"? Use one of gpu-1, gpu-2`},
			refusal{[]string{"backend", "drain"}, 2, "takes either the names of backends or --selector"},
			refusal{[]string{"backend", "drain", "gpu-1", "-l", "zone"}, 2, "takes either the names of backends or --selector"},
			refusal{[]string{"backend", "drain", "-l", "zone=c"}, 1, "no backend has these labels"},
			refusal{[]string{"backend", "drain", "gpu-1", "--timeout", "1m"}, 2, "--timeout works only with --wait"},
			refusal{[]string{"backend", "drain", "gpu-1", "--wait", "--timeout", "0s"}, 2, "--timeout: invalid duration \"0s\""},
		)
	})
}

func TestWaitNeedsProxy(t *testing.T) {
	s := onDatabase(t).begin()
	s.refuse(refusal{[]string{"backend", "drain", "gpu-1", "--wait"}, 2, "--wait needs a running proxy: use --admin"})
	if out := s.must("backend ls"); strings.Contains(out, "draining") {
		t.Errorf("it was drained all the same:\n%s", out)
	}
}

// What a running proxy says is in the lists, and waited for: also by commands that write straight to the database.
func TestRunning(t *testing.T) {
	s := onProxy(t, open).begin()
	served := leased("gpu-1", "enabled", 3)
	served.Idle, served.Dialing = 29, 1
	down := leased("gpu-2", "draining", 0)
	down.Reachable, down.Reason = false, "connection refused"
	served.Service, down.Service = "stt", "stt"
	service := api.Service{Name: "stt"}
	service.Queue.Waiting = 12
	s.playing(func() api.Stats {
		return api.Stats{Services: []api.Service{service}, Backends: []api.Backend{served, down}}
	})
	same(t, "backends", s.must("backend ls"), `
NAME   SERVICE  URL                                 CAP  WARM  WEIGHT  STATE    IDLE  LEASED  HEALTH    LABELS
gpu-1  stt      ws://10.0.0.5:2700                  48   cap   1       enabled  29    3       healthy   zone=a
gpu-2  stt      ws://10.0.0.6:2700/?token=env:KEY1  32   8     1       enabled  0     0       draining  zone=b`)
	if out := s.must("backend show gpu-2"); !strings.Contains(out, "\n\nNOW  ") || !strings.Contains(out, "draining: it is empty; unreachable: connection refused") {
		t.Errorf("one backend:\n%s", out)
	}
	if out := s.must("backend ls -o json"); !strings.Contains(out, `"trouble": "it is empty; unreachable: connection refused"`) || !strings.Contains(out, `"leased": 3`) {
		t.Errorf("for programs:\n%s", out)
	}
	same(t, "services", s.must("service ls"), `
NAME  PATH     HOST   PROFILE  BALANCE       QUEUE  BACKENDS  CAP  STATE  WAITING
stt   /v1/stt  (any)  vosk     least-loaded  1000   2         80   up     12`)
	status, out, messages := s.run("backend", "drain", "gpu-2", "--wait", "--database", s.database)
	if status != 0 || !strings.Contains(out, "Version 4 -> 5") || !strings.Contains(messages, "gpu-2: done after") {
		t.Errorf("status %d, %s, %s", status, out, messages)
	}
	status, out, messages = s.run("backend", "drain", "gpu-1", "--wait", "--timeout", "1ms")
	if status != 1 || !strings.Contains(out, "Version 5 -> 6") || !strings.Contains(messages, "Error: not done after 1ms: ") {
		t.Errorf("status %d, %s, %s", status, out, messages)
	}
	s.playing(nil)
	status, out, messages = s.run("backend", "ls")
	if status != 0 || strings.Contains(out, "IDLE") || !strings.Contains(messages, "The present state of the proxy is not shown: ") {
		t.Errorf("a proxy that does not know: status %d, %s, %s", status, out, messages)
	}
}
