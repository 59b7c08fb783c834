package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// playedSessions are the sessions of the proxy that a test plays.
func playedSessions() []api.Session {
	return []api.Session{
		{
			ID: "q7m2kd4x-1", Service: "stt", Backend: "gpu-1", Client: "10.1.2.3:4001", State: api.StateRelaying, Started: noon, AgeSeconds: 125,
			WaitedSeconds: 0.012, FramesFromClient: 250, BytesFromClient: 2 << 20, FramesFromBackend: 31, BytesFromBackend: 6200, FirstReplySeconds: 0.34, LagSeconds: 1.2,
			Connection: "gpu-1/17", RequestID: "req-1",
		},
		{ID: "q7m2kd4x-2", Service: "stt", Client: "10.1.2.4:4001", State: api.StateWaiting, Started: noon.Add(time.Minute), AgeSeconds: 3.4, WaitedSeconds: 3.4, Place: 1},
		{
			ID: "q7m2kd4x-0", Service: "stt", Backend: "gpu-2", Client: "10.1.2.5:4001", State: api.StateEnded, Started: noon, AgeSeconds: 9, Ended: noon.Add(9 * time.Second),
			By: "backend", Code: 1011, Reason: "the backend vanished", Fate: "discarded",
		},
	}
}

// serveSessions adds sessions to the proxy that a test plays.
func (s *stage) serveSessions(mux *http.ServeMux) {
	encode := func(w http.ResponseWriter, status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	var ids []string
	for _, v := range playedSessions() {
		ids = append(ids, v.ID)
	}
	find := func(w http.ResponseWriter, r *http.Request) *api.Session {
		for _, v := range playedSessions() {
			if v.ID == r.PathValue("id") {
				return &v
			}
		}
		var f api.Failure
		f.Error.Kind, f.Error.Text = api.KindUnknown, spelling.Unknown("session", r.PathValue("id"), ids).Error()
		encode(w, http.StatusNotFound, f)
		return nil
	}
	mux.HandleFunc("GET "+api.SessionsPath, func(w http.ResponseWriter, r *http.Request) {
		q, err := api.ParseSessionQuery(r.URL.Query())
		if err != nil {
			s.t.Error(err)
		}
		all := playedSessions()
		if q.State != api.StateEnded {
			all = all[:2]
		}
		chosen, matched := q.Choose(all)
		encode(w, http.StatusOK, api.SessionList{Sessions: chosen, Matched: matched, Total: 2})
	})
	mux.HandleFunc("GET "+api.SessionsPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		v := find(w, r)
		if v == nil {
			return
		}
		detail := api.SessionDetail{Session: *v, Path: "/v1/stt", Profile: "vosk"}
		if v.State == api.StateWaiting {
			detail.Queue = &api.Place{Place: 1, Waiting: 7, WaitedSeconds: 3.4, TimeoutSeconds: 6.6}
		} else {
			detail.Paused, detail.PendingToBackend = true, 4096
			detail.Server = &api.Connection{ID: "gpu-1/17", State: "serving", Established: noon.Add(-time.Hour), AgeSeconds: 3725, Sessions: 41, RoundTripSeconds: 0.0021}
			detail.Before = playedSessions()[2:]
		}
		encode(w, http.StatusOK, detail)
	})
	mux.HandleFunc("GET "+api.TapPath, s.serveTap)
	mux.HandleFunc("DELETE "+api.SessionsPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		var order api.Order
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			s.t.Error(err)
		}
		if v := find(w, r); v != nil {
			encode(w, http.StatusOK, api.Outcome{Text: fmt.Sprintf("session %s ended by %s: %s", v.ID, order.Who, order.Why), Sessions: 1})
		}
	})
}

func playedStats() api.Stats {
	backend := api.Backend{
		Name: "gpu-1", Service: "stt", Health: api.Health{Reachable: true, Circuit: "closed", Since: noon, RoundTripSeconds: 0.002},
		Pool: api.Pool{State: "enabled", Usable: true, Weight: 1, Cap: 32, Ceiling: 32, Leased: 1, Idle: 31},
	}
	down := backend
	down.Name, down.Usable, down.Leased, down.Idle, down.Broken = "gpu-2", false, 0, 0, 3
	down.Circuit, down.CircuitReason, down.CircuitSince = "open", "connection refused", noon
	backend.FirstReplySeconds, backend.FirstReplies = 0.34, 5
	s := api.Stats{
		Version: "1.2.3", UptimeSeconds: 3 * 3600, Sessions: api.Sessions{Active: 1},
		Services:      []api.Service{{Name: "stt", Queue: api.Queue{Limit: 10, Waiting: 1, OldestSeconds: 3.4, Totals: api.QueueTotals{Queued: 40, TimedOut: 2}}, Utilisation: 0.0625}},
		Backends:      []api.Backend{backend, down},
		Configuration: api.Configuration{Source: "sqlite:config.db", Version: "4", State: "current", Applied: noon},
	}
	s.Problems = diagnosis.Find(&diagnosis.Facts{Now: noon, Stats: &s})
	diagnosis.Describe(&s)
	return s
}

func TestSessionList(t *testing.T) {
	s := onProxy(t, open)
	s.playing(playedStats)
	same(t, "all", s.must("session ls"), `
ID          SERVICE  BACKEND  CLIENT         STATE         AGE    WAITED  IN       OUT      LAG
q7m2kd4x-1  stt      gpu-1    10.1.2.3:4001  relaying      2m05s  12ms    2.0 MiB  6.1 KiB  1.2s
q7m2kd4x-2  stt      -        10.1.2.4:4001  waiting (1.)  3.4s   3.4s    0 B      0 B      -`)
	same(t, "limited", s.must("session ls --sort age --limit 1 --service stt"), `
ID          SERVICE  BACKEND  CLIENT         STATE     AGE    WAITED  IN       OUT      LAG
q7m2kd4x-1  stt      gpu-1    10.1.2.3:4001  relaying  2m05s  12ms    2.0 MiB  6.1 KiB  1.2s
1 of 2 sessions; --limit 0 shows all.`)
	same(t, "ended", s.must("session ls --state ended"), `
ID          SERVICE  BACKEND  CLIENT         STATE  AGE   WAITED  IN   OUT  ENDED                 BY       CODE  REASON
q7m2kd4x-0  stt      gpu-2    10.1.2.5:4001  ended  9.0s  -       0 B  0 B  2026-11-22T12:00:09Z  backend  1011  the backend vanished`)
	same(t, "names", s.must("session ls -o name --client 10.1.2.4"), "q7m2kd4x-2")
	if out := s.must("session ls -o wide --backend gpu-1"); !strings.Contains(out, "2026-11-22T12:00:00Z  250        31          340ms") || !strings.Contains(out, "req-1") {
		t.Errorf("wide:\n%s", out)
	}
	if out := s.must("session ls -o json --tenant none"); strings.TrimSpace(out) != "[]" {
		t.Errorf("no session: %s", out)
	}
	var all []api.Session
	if err := json.Unmarshal([]byte(s.must("session ls -o json")), &all); err != nil || len(all) != 2 || all[0] != playedSessions()[0] {
		t.Errorf("for programs: %v, %+v", err, all)
	}
	s.refuse(
		refusal{[]string{"session", "ls", "--state", "relayin"}, 2, `--state: unknown state "relayin": did you mean "relaying"?`},
		refusal{[]string{"session", "ls", "--sort", "old"}, 2, `--sort: unknown order "old"`},
		refusal{[]string{"session", "ls", "--limit", "-1"}, 2, `--limit: invalid number "-1": use a whole number from 0`},
		refusal{[]string{"session", "ls", "--backend", "gpu-3"}, 1, `unknown backend "gpu-3": did you mean "gpu-1"?`},
		refusal{[]string{"session", "ls", "--service", "sst"}, 1, `unknown service "sst": did you mean "stt"?`},
		refusal{[]string{"session", "ls", "--sort", "lag", "--state", "ended"}, 2, "sessions that have ended have no lag: use another order"},
	)
}

func TestSessionShow(t *testing.T) {
	s := onProxy(t, open)
	same(t, "relaying", s.must("session show q7m2kd4x-1"), `
FIELD         VALUE
id            q7m2kd4x-1
state         relaying
service       stt
path          /v1/stt
profile       vosk
backend       gpu-1
client        10.1.2.3:4001
request id    req-1
started       2026-11-22T12:00:00.000Z
age           2m05s
waited        12ms for a connection
from client   250 frames, 2.0 MiB
from backend  31 frames, 6.1 KiB
first reply   340ms
lag           1.2s
paused        the client is not read: 4.0 KiB wait for the backend

CONNECTION   VALUE
id           gpu-1/17
state        serving
established  2026-11-22T11:00:00Z
age          1h02m
sessions     41, this one included
ping         2ms

Earlier sessions of this connection
ID          CLIENT         STARTED               LASTED  ENDED                                            CONNECTION
q7m2kd4x-0  10.1.2.5:4001  2026-11-22T12:00:00Z  9.0s    by the backend, code 1011: the backend vanished  discarded`)
	if out := s.must("session show q7m2kd4x-2"); !strings.Contains(out, "QUEUE        VALUE\nplace        1 of 7\nwaited       3.4s\ngives up in  6.6s\n") {
		t.Errorf("waiting:\n%s", out)
	}
	if out := s.must("session show q7m2kd4x-1 -o yaml"); !strings.HasPrefix(out, "id: q7m2kd4x-1\nservice: stt\n") {
		t.Errorf("YAML:\n%s", out)
	}
	s.refuse(
		refusal{[]string{"session", "show", "q7m2kd4x-3"}, 1, `unknown session "q7m2kd4x-3": did you mean "q7m2kd4x-1"?`},
		refusal{[]string{"session", "show"}, 2, "takes the id of one session, but got none"},
		refusal{[]string{"session", "show", ".."}, 2, `takes the id of one session, but got [".."]`},
		refusal{[]string{"session", "show", "../stats"}, 1, `unknown session "../stats"`},
	)
}

// A session that waits for the last results has not ended.
func TestSessionEnds(t *testing.T) {
	s := api.SessionDetail{Session: api.Session{ID: "q7m2kd4x-1", State: api.StateCompleting, Ended: noon, By: "client", Code: 1000}}
	for state, want := range map[string]string{
		api.StateCompleting: "ending since", api.StateEnded: "ended",
	} {
		s.State = state
		var b strings.Builder
		if err := showSession(&b, &s); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, "\n"+want+"  ") || strings.Contains(got, "how it ended") != (state == api.StateEnded) {
			t.Errorf("%s:\n%s", state, got)
		}
	}
}

func TestSessionKill(t *testing.T) {
	s := onProxy(t, open)
	s.playing(playedStats)
	same(t, "one", s.must("session kill q7m2kd4x-1 --why silence --who alice"), "session q7m2kd4x-1 ended by alice: silence")
	if out := s.must("session kill q7m2kd4x-1 q7m2kd4x-2 --yes"); strings.Count(out, "ended by "+whoami()) != 2 {
		t.Errorf("several:\n%s", out)
	}
	for line, want := range map[string]string{
		"session kill --backend gpu-1 --dry-run": "The command would end 1 session.\n", "session kill q7m2kd4x-1 q7m2kd4x-2 --dry-run": "The command would end 2 sessions.\n",
		"session kill --backend gpu-2 --dry-run": "Dry run: nothing was ended. The command would end 0 sessions.\n",
	} {
		if out := s.must(line); !strings.HasSuffix(out, want) || strings.Contains(out, "ended by") {
			t.Errorf("%s:\n%s", line, out)
		}
	}
	status, out, messages := s.run("session", "kill", "nosuch", "q7m2kd4x-2", "--yes")
	if status != 1 || !strings.Contains(out, "q7m2kd4x-2 ended") || !strings.Contains(messages, `unknown session "nosuch"`) {
		t.Errorf("one of two: status %d, %s, %s", status, out, messages)
	}
	s.refuse(
		refusal{[]string{"session", "kill"}, 2, "takes the ids of sessions, but got none"},
		refusal{[]string{"session", "kill", "q7m2kd4x-1", ""}, 2, `invalid session id ""`},
		refusal{[]string{"session", "kill", "--backend", "gpu-9", "--dry-run"}, 1, `unknown backend "gpu-9": did you mean "gpu-1"?`},
		refusal{[]string{"session", "kill", "q7m2kd4x-1", "q7m2kd4x-2"}, 2, "end 2 sessions: there is no terminal to ask on: use --yes"},
	)
	alone(t)
	status, _, messages = command("session", "ls")
	if status != 2 || !strings.Contains(messages, "no proxy is given, and no proxy on this machine has its admin socket at ") {
		t.Errorf("without a proxy: status %d, %s", status, messages)
	}
	status, _, messages = command("status", "--admin", "unix:/nosuch")
	if status != 1 || !strings.Contains(messages, "no proxy answers at unix:/nosuch") || !strings.Contains(messages, "(is it running? use --admin for another proxy)") {
		t.Errorf("a proxy that is not there: status %d, %s", status, messages)
	}
}

func TestStatus(t *testing.T) {
	s := onProxy(t, open)
	s.playing(playedStats)
	out := s.must("status")
	for _, want := range []string{
		"wsbouncer 1.2.3 at " + s.where[1] + ", up 3h00m: 1 session, 1 waiting\nConfiguration: version 4 of sqlite:config.db, current, in force since 2026-11-22T12:00:00Z\n\n",
		"\nThis hurts clients:\n  - service stt: 1 client waits, the first for 3.4s [service-waiting]\n      wsbouncer backend add NAME URL --connections N --service stt " + strings.Join(s.where, " ") + "\n",
		"\nThis may hurt clients soon:\n  ! backend gpu-2: circuit open: connection refused (since 2026-11-22T12:00:00Z, ",
		") [backend-unreachable]\n      wsbouncer backend recycle gpu-2 " + strings.Join(s.where, " ") + "\n\n",
		"\nSERVICE  WAITING  LONGEST  UTILISATION  QUEUED  TIMED OUT  FULL  EVICTED  STATE\nstt      1        3.4s     6%           40      2          0     0        clients wait\n",
		"\ngpu-1    stt      1       31    32   340ms        2ms   0       healthy       ",
		"\ngpu-2    stt      0       0     32   -            2ms   3       circuit open  ",
		"\nSessions that failed lately\nID          SERVICE  BACKEND  ENDED",
		"by the backend, code 1011: the backend vanished\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var read struct {
		Well     bool
		Problems []api.Problem
		Failed   []api.Session
		Stats    api.Stats
	}
	if err := json.Unmarshal([]byte(s.must("status -o json")), &read); err != nil || read.Well || len(read.Problems) != 2 || read.Problems[1].Level != "failure" ||
		len(read.Failed) != 1 || read.Stats.Version != "1.2.3" {
		t.Errorf("for programs: %v, %+v", err, read)
	}
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Problems = []api.Problem{}
		return stats
	})
	if out := s.must("status"); !strings.Contains(out, "\n\nNo problem has lasted for long enough to be named, but gpu-2 is circuit open.\n\n") {
		t.Errorf("a circuit has just opened:\n%s", out)
	}
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Problems = []api.Problem{}
		stats.Backends[1].Condition = api.Condition{Word: api.Healthy, Level: api.LevelOK}
		stats.Services[0].Condition.Word = "down"
		return stats
	})
	if out := s.must("status"); !strings.Contains(out, "\nstt      1        3.4s     -            40 ") {
		t.Errorf("a service that takes no sessions:\n%s", out)
	}
	if out := s.must("status"); !strings.Contains(out, "\n\nAll is well.\n\n") {
		t.Errorf("all is well:\n%s", out)
	}
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Problems, stats.Services, stats.Backends = []api.Problem{}, nil, nil
		return stats
	})
	if out := s.must("status"); !strings.Contains(out, "\n\nThere is no service yet. Add one:\n    wsbouncer service add NAME "+strings.Join(s.where, " ")+"\n\n") || strings.Contains(out, "All is well") {
		t.Errorf("no service:\n%s", out)
	}
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Problems = nil
		return stats
	})
	if out := s.must("status"); !strings.Contains(out, "\n\nThis proxy is older, and does not report problems: see its tables.\n\n") {
		t.Errorf("older:\n%s", out)
	}
}
