package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// acting starts an admin API whose actions only say what they were asked for, with the backends gpu-1 (zone a) and gpu-2, and returns its
// address and audit log.
func acting(t *testing.T) (address string, audit *admin.Audit) {
	t.Helper()
	database := onDatabase(t).database
	store, err := stores.Open(database, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	_, err = store.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Add, Kind: config.KindService, Name: "stt"},
		{Verb: config.Add, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"service": "stt", "url": "ws://10.0.0.5:2700", "connections": "100", "labels.zone": "a"}},
		{Verb: config.Add, Kind: config.KindBackend, Name: "gpu-2", Values: config.Values{"service": "stt", "url": "ws://10.0.0.6:2700", "connections": "100"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := func(what string, known ...string) func(string) (api.Outcome, error) {
		return func(name string) (api.Outcome, error) {
			if !strings.Contains(strings.Join(known, " "), name) {
				return api.Outcome{}, admin.Unknown("thing", name, known)
			}
			return api.Outcome{Text: name + " " + what}, nil
		}
	}
	audit = admin.NewAudit(slog.New(slog.NewTextHandler(io.Discard, nil)))
	server := httptest.NewServer(admin.Handler(admin.Source{
		Metrics: http.NotFoundHandler(), Configuration: remote.Handler(store, remote.HandlerOptions{}), Audit: audit,
		Actions: admin.Actions{Pause: done("paused", "stt", "mt"), Resume: done("resumed", "stt", "mt"), Recycle: done("recycled", "gpu-1", "gpu-2")},
		Sessions: admin.Sessions{KillAll: func(backend, why string, within time.Duration) (int, error) {
			if backend != "gpu-1" {
				return 0, admin.Unknown("backend", backend, []string{"gpu-1"})
			}
			return 3, nil
		}},
	}, open))
	t.Cleanup(server.Close)
	return server.URL, audit
}

func TestActions(t *testing.T) {
	address, audit := acting(t)
	for _, c := range []struct {
		line   string
		status int
		out    string
		says   string
		noted  int // actions in the audit log, by alice
	}{
		{"service pause stt", 0, "stt paused\n", "", 1},
		{"service pause stt mt", 0, "stt paused\nmt paused\n", "", 2},
		{"service resume stt", 0, "stt resumed\n", "", 1},
		{"service pause sst stt", 1, "stt paused\n", `unknown thing "sst": did you mean "stt"? Use one of stt, mt`, 2},
		{"service pause", 2, "", "service pause takes the names of services, but got none", 0},
		{"service resume ..", 2, "", `invalid name "..": use one that 'ls' lists`, 0},
		{"service pause a/b", 1, "", `unknown thing "a/b"`, 1},
		{"backend recycle gpu-1 gpu-2", 0, "gpu-1 recycled\ngpu-2 recycled\n", "", 2},
		{"backend recycle --selector zone=a", 0, "gpu-1 recycled\n", "", 1},
		{"backend recycle --selector zone=b", 1, "", "no backend has these labels", 0},
		{"backend recycle", 2, "", "takes either the names of backends or --selector", 0},
		{"backend recycle gpu-1 --selector zone=a", 2, "", "takes either the names of backends or --selector", 0},
		{"session kill --backend gpu-1 --yes", 0, "3 sessions of backend gpu-1 are ended within 30s\n", "", 1},
		{"session kill --backend gpu-1 --within 0 --yes", 0, "3 sessions of backend gpu-1 are ended\n", "", 1},
		{"session kill --backend gpu-1 --within 1h -y", 0, "3 sessions of backend gpu-1 are ended within 1h0m0s\n", "", 1},
		{"session kill --backend gpu-2 --yes", 1, "", `unknown backend "gpu-2": did you mean "gpu-1"?`, 1},
		{"session kill --backend gpu-1", 2, "", "use --yes", 0},
		{"session kill --backend gpu-1 --within 61m --yes", 2, "", `--within: invalid duration "1h1m0s": use 0 (at once) to 1h, such as 30s`, 0},
		{"session kill --backend gpu-1 --within -1s --yes", 2, "", `--within: invalid duration "-1s"`, 0},
		{"session kill --backend gpu-1 q7m2kd4x-1 --yes", 2, "", "takes either the ids of sessions or --backend", 0},
		{"session kill --within 1s q7m2kd4x-1", 2, "", "--within works only with --backend", 0},
		{"session kill --backend= --yes", 2, "", "--backend: the name is missing", 0},
	} {
		_, before := audit.Since(0)
		args := append(strings.Fields(c.line), "--admin", address, "--who", "alice", "--why", "a reason")
		status, out, messages := command(args...)
		if status != c.status || out != c.out || !strings.Contains(messages, c.says) {
			t.Errorf("%s: status %d, %q, %q; want %d, %q, %q", c.line, status, out, messages, c.status, c.out, c.says)
		}
		actions, _ := audit.Since(before)
		if len(actions) != c.noted {
			t.Errorf("%s: %d actions were noted; want %d", c.line, len(actions), c.noted)
		}
		for _, a := range actions {
			if a.Who != "alice" || a.Why != "a reason" {
				t.Errorf("%s: noted was %+v", c.line, a)
			}
		}
	}
	status, _, messages := command("service", "pause", "stt", "--why", strings.Repeat("w", 501), "--admin", address)
	if status != 2 || !strings.Contains(messages, "why: invalid text of 501 bytes") { // which the proxy judges
		t.Errorf("a long reason: status %d, %s", status, messages)
	}
}

// A proxy that is not there is not asked again for each name.
func TestActionUnreachable(t *testing.T) {
	alone(t)
	status, _, messages := command("service", "pause", "a", "b", "--admin", "http://"+wstest.FreeAddress(t))
	if n := strings.Count(messages, "no proxy answers at"); status != 1 || n != 1 {
		t.Errorf("status %d, %s", status, messages)
	}
	_, _, messages = command("backend", "recycle", "a")
	if want := "use --admin ADDRESS"; !strings.Contains(messages, want) {
		t.Errorf("%s; want %s", messages, fmt.Sprintf("%q", want))
	}
}
