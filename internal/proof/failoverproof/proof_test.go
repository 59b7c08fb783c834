package failoverproof

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// run runs a proof for the time of the test.
func run(t *testing.T, o Options) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	report, err := Run(ctx, o)
	if err != nil {
		t.Error(err)
	}
	t.Log(report.String())
	return report
}

// Without the proxy, and with nothing happening to servers, there is nothing to find fault with: what the proof checks holds for the servers
// themselves.
func TestDirect(t *testing.T) {
	var runs sync.WaitGroup // all at once: they wait for audio most of the time
	for _, protocol := range Protocols() {
		runs.Go(func() {
			report := run(t, Options{
				Protocol: protocol, Direct: true, Sessions: 4, Duration: time.Second, MinLength: 6 * time.Second, MaxLength: 10 * time.Second,
				Speed: 12, Seed: 3,
			})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Sessions < 4 || report.Finals < report.Sessions {
				t.Errorf("%s: only %d sessions with %d final results", protocol, report.Sessions, report.Finals)
			}
		})
	}
	runs.Wait()
}

// Servers die, close, hang and are drained, and sessions continue as if nothing had happened. So do those for which there is too little memory.
func TestProof(t *testing.T) {
	var runs sync.WaitGroup
	for _, protocol := range []string{"vosk", "deepgram"} {
		runs.Go(func() { shortOfMemory(t, protocol) })
		runs.Go(func() {
			report := run(t, Options{
				Protocol: protocol, Sessions: 30, Events: 4, Every: 700 * time.Millisecond, Seed: 11, MinLength: 2 * time.Second, MaxLength: 4 * time.Second,
				Kinds: []Kind{Kill, Close, Move},
			})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Moved == 0 {
				t.Errorf("%s: no session was moved", protocol)
			}
		})
	}
	runs.Wait()
}

// shortOfMemory is a proof whose clients' messages come in pieces, and whose sessions stop being recoverable at any moment, since memory is short,
// and are recoverable again. Their utterances are so long that the sessions need several times the memory, also if a busy machine spreads them out.
func shortOfMemory(t *testing.T, protocol string) {
	report := run(t, Options{
		Protocol: protocol, Sessions: 40, Duration: time.Second, Seed: 11, MinLength: 10 * time.Second, MaxLength: 14 * time.Second, Speed: 4,
		Utterance: 80, Pieces: true, Memory: 1 << 20,
	})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Unassured == "" {
		t.Errorf("%s: all sessions stayed recoverable", protocol)
	}
}

// Servers end sessions at an age, as OpenAI and Soniox do, and with a notice, as Gemini does. Their clients see it, and those of the proxy do not.
func TestAges(t *testing.T) {
	var runs sync.WaitGroup
	for protocol, notice := range map[string]time.Duration{"openai-realtime": 0, "soniox": 0, "deepgram": time.Second} {
		for _, direct := range []bool{false, true} {
			o := Options{
				Protocol: protocol, Direct: direct, Sessions: 3, Duration: time.Second, MinLength: 8 * time.Second, MaxLength: 8 * time.Second, Seed: 5,
				Age: 2500 * time.Millisecond, Notice: notice,
			}
			runs.Go(func() {
				report := run(t, o)
				// While the machine stands still, connections age and sessions do not.
				for tries := 1; tries < 4 && !direct && report.Moved < 3*3 && report.Slowest > time.Second; tries++ {
					report = run(t, o)
				}
				switch err := report.Err(); {
				case direct && report.FailedSessions() < 3:
					t.Errorf("%s: of clients of the servers, only %d saw the end", protocol, report.FailedSessions())
				case direct:
				case err != nil:
					t.Error(err)
				case report.Moved < 3*3: // each session lasts for longer than three ages
					t.Errorf("%s: %d moves", protocol, report.Moved)
				}
			})
		}
	}
	runs.Wait()
}

// What the proof is worth: it fails when the answered point is one chunk too early, since results come back then, and one chunk too late,
// since chunks are lost.
func TestProofFails(t *testing.T) {
	var runs sync.WaitGroup
	for times, want := range map[string]func(*Report) int{
		"start":                     func(r *Report) int { return r.Faults[Returned] + r.Faults[Twice] },
		"start, duration, duration": func(r *Report) int { return r.Faults[Lost] },
	} {
		file := filepath.Join(t.TempDir(), "profiles.yaml")
		profile := `profiles: {mistaken: {from: deepgram, predial: idle, failover: {` +
			`answered: {messages: {json: {type: Results, is_final: true}}, by: time, times: [` + times + `], unit: s}}}}`
		if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
			t.Fatal(err)
		}
		runs.Go(func() {
			// A move that comes before a session's first result shows nothing, and on a busy machine all may.
			for seed := range uint64(5) {
				report := run(t, Options{
					Protocol: "deepgram", Sessions: 20, Events: 3, Every: 500 * time.Millisecond, Seed: 11 + seed, MinLength: 2 * time.Second,
					MaxLength: 3 * time.Second, Kinds: []Kind{Kill}, Utterance: 1, Latency: 150 * time.Millisecond, Profile: "mistaken", ProfileFile: file,
				})
				if want(&report) > 0 && report.Err() != nil {
					return
				}
			}
			t.Errorf("answered up to %s: nothing was found", times)
		})
	}
	runs.Wait()
}

// reconnecting is a short proof of clients that come back.
func reconnecting(protocol string, sessions, cuts int) Options {
	return Options{
		Protocol: protocol, Sessions: sessions, Cuts: cuts, Duration: 12 * time.Second, Events: 3, Every: 3 * time.Second, Seed: 11,
		MinLength: 3 * time.Second, MaxLength: 6 * time.Second, Patience: time.Minute,
	}
}

// Connections of clients break as servers die, and the clients come back as if nothing had happened.
func TestReconnect(t *testing.T) {
	var runs sync.WaitGroup
	for _, protocol := range []string{"vosk", "deepgram", "dashscope"} {
		runs.Go(func() {
			report := run(t, reconnecting(protocol, 7, 20))
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Returns.sentAgain == 0 {
				t.Errorf("%s: no message had to be sent again", protocol)
			}
		})
	}
	runs.Wait()
}

// What that is worth: a message is lost that counts as received once its beginning has arrived.
func TestReconnectFails(t *testing.T) {
	o := reconnecting("deepgram", 10, 30)
	o.Duration, o.Events, o.overcount = 6*time.Second, 0, true
	report := run(t, o)
	if report.Faults[Lost]+report.Faults[WrongTimes] == 0 || report.Err() == nil {
		t.Error("nothing was found")
	}
}

func TestOptionsRefused(t *testing.T) {
	for want, o := range map[string]Options{
		`unknown protocol "chat"`:                   {Protocol: "chat"},
		"sessions: -1 is out of range":              {Protocol: "vosk", Sessions: -1},
		"events: -1 is out of range":                {Protocol: "vosk", Events: -1},
		"servers: 65 is out of range":               {Protocol: "vosk", Servers: 65},
		"duration: 1ms is out of range":             {Protocol: "vosk", Duration: time.Millisecond},
		"greatest length: 1s is out of range":       {Protocol: "vosk", MaxLength: time.Second, MinLength: 2 * time.Second},
		"greatest length: 2h0m0s is out of":         {Protocol: "vosk", MaxLength: 2 * time.Hour},
		"speed: 1000 is out of range":               {Protocol: "vosk", Speed: 1000},
		"cuts: 1 cuts need a proxy":                 {Protocol: "vosk", Direct: true, Cuts: 1},
		"direct: without the proxy, no session sur": {Protocol: "vosk", Direct: true, Events: 1},
	} {
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}
