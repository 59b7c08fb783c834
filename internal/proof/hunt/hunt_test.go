package hunt

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// With a connection of its own, no session gets anything of another; each that ends in order gets its last result, and nothing
// fails.
func TestNoLeaksOverOwnConnections(t *testing.T) {
	for _, protocol := range Dialogues() {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, protocol, sim.NastyOptions{})
			report := run(t, Options{URL: s.URL(), Protocol: protocol, Sessions: 400, Settings: 0.5, Seed: 1})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			t.Log(report.String())
			if report.Sessions != 400 || report.Completed != report.ByManner[CleanEnd] || report.Mute > 0 || report.Failed() > 0 || report.Refused > 0 {
				t.Error("not all sessions went as they should")
			}
			for m, n := range report.ByManner {
				if n == 0 {
					t.Errorf("no session with the manner %v", Manner(m))
				}
			}
			if report.Checked < report.Completed {
				t.Errorf("%d messages had an identity", report.Checked)
			}
		})
	}
}

// All simulated servers can be hunted.
func TestDialogues(t *testing.T) {
	if got, want := Dialogues(), sim.ProtocolNames(); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// Over connections that are used again as they are, the hunt does find leaks, in every protocol.
func TestLeaksOverSharedConnections(t *testing.T) {
	for _, protocol := range Dialogues() {
		t.Run(protocol, func(t *testing.T) {
			r := relay(t, protocol, 2)
			report := run(t, Options{
				URL: r, Protocol: protocol, Sessions: 500, Concurrency: 2, Settings: 0.5, Timeout: shortTimeout, Seed: 2,
			})
			t.Log(report.String())
			err := report.Err()
			if err == nil {
				t.Fatal("no leak was found")
			}
			leak := report.Found[0]
			for _, trace := range []string{leak.ToTrace, leak.OfTrace} {
				if !strings.Contains(trace, "manner") || !strings.Contains(trace, "  sent ") || !strings.Contains(trace, "from 127.0.0.1:") {
					t.Errorf("a trace that tells nothing: %s", trace)
				}
			}
			if !strings.Contains(leak.ToTrace, "received") || leak.To == leak.Of {
				t.Errorf("%d got what is %d's: %s", leak.To, leak.Of, leak.ToTrace)
			}
			if !strings.Contains(err.Error(), leak.ToTrace) || !strings.Contains(err.Error(), leak.OfTrace) {
				t.Errorf("the error is without the traces: %v", err)
			}
		})
	}
}

// Enough leaks end the hunt.
func TestMaxLeaks(t *testing.T) {
	r := relay(t, sim.SherpaONNX, 1)
	report := run(t, Options{URL: r, Protocol: sim.SherpaONNX, Sessions: 1 << 30, Concurrency: 1, MaxLeaks: 3, Timeout: shortTimeout})
	if report.Leaks < 3 || len(report.Found) != 3 {
		t.Errorf("%d leaks, %d of them told", report.Leaks, len(report.Found))
	}
}

// A full server refuses; that is no failure.
func TestRefused(t *testing.T) {
	for _, protocol := range []string{sim.Vosk, sim.WhisperLive, sim.WhisperLiveKit, sim.Kyutai, sim.KaldiGStreamer, sim.Speechmatics, sim.Soniox, sim.KyutaiTTS, sim.Cartesia} {
		t.Run(protocol, func(t *testing.T) {
			for _, manners := range []Manners{{CleanEnd: 1}, DefaultManners} {
				s := serve(t, protocol, sim.NastyOptions{Full: 1})
				report := run(t, Options{URL: s.URL(), Protocol: protocol, Sessions: 300, Concurrency: 8, Manners: manners})
				t.Log(report.String())
				refused, byMessage := report.Refused, !slices.Contains([]string{sim.Vosk, sim.WhisperLiveKit}, protocol)
				if byMessage {
					refused = report.Busy
				}
				if refused == 0 || report.Failed() > 0 || byMessage && report.Refused > 0 || !byMessage && report.Busy > 0 {
					t.Error("not all sessions were served or refused")
				}
				// With other manners, all that have the place may leave early: Kaldi's one worker serves one session a second.
				if manners != DefaultManners && report.Completed == 0 {
					t.Error("no session was served to its end")
				}
			}
		})
	}
}

// What goes wrong is counted by kind.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		nasty sim.NastyOptions
		fail  sim.FailOptions
		want  string
	}{
		{sim.NastyOptions{SilentDeath: 0.5}, sim.FailOptions{}, "timeout"},
		{sim.NastyOptions{CloseMidMessage: 0.5}, sim.FailOptions{}, "close 1011"},
		{sim.NastyOptions{}, sim.FailOptions{Reset: 0.5}, "connection reset"},
		{sim.NastyOptions{}, sim.FailOptions{MidFrame: 0.5}, "end of the stream without a close frame"},
		{sim.NastyOptions{}, sim.FailOptions{Close: 0.5, CloseCode: 1012}, "close 1012"},
	} {
		s, err := sim.Start(sim.Options{Protocol: sim.Vosk, Nasty: test.nasty, Fail: test.fail})
		if err != nil {
			t.Fatal(err)
		}
		report := run(t, Options{URL: s.URL(), Protocol: sim.Vosk, Sessions: 100, Timeout: shortTimeout})
		s.Close()
		if report.Errors[test.want] == 0 || report.Leaks > 0 {
			t.Errorf("%s: got %s", test.want, report.String())
		}
	}
	report := run(t, Options{URL: "ws://" + wstest.FreeAddress(t), Protocol: sim.Vosk, Sessions: 10})
	if report.Failed() != 10 {
		t.Errorf("no server: got %s", report.String())
	}
}

func TestContextEndsHunt(t *testing.T) {
	s := serve(t, sim.Vosk, sim.NastyOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	report, err := Run(ctx, Options{
		URL: s.URL(), Protocol: sim.Vosk, Sessions: 1 << 30,
		Outcome: func(o Outcome) {
			if o.Session == 1000 {
				cancel()
			}
		}, Concurrency: 1,
	})
	if !errors.Is(err, context.Canceled) || report.Sessions < 1000 || report.Sessions > 1001 {
		t.Errorf("got %v after %d sessions", err, report.Sessions)
	}
}

// The same seed holds the same sessions.
func TestSeed(t *testing.T) {
	s := serve(t, sim.SherpaONNX, sim.NastyOptions{})
	hold := func(seed uint64) Report {
		report := run(t, Options{
			URL: s.URL(), Protocol: sim.SherpaONNX, Sessions: 200, Seed: seed,
			Manners: Manners{CleanEnd: 1, Impatient: 1},
		})
		report.Duration, report.Messages, report.Checked, report.Errors = 0, 0, 0, nil
		return report
	}
	first, again, other := hold(1), hold(1), hold(2)
	if first.Sent != again.Sent || first.ByManner != again.ByManner {
		t.Errorf("got %+v, and then %+v", first, again)
	}
	if first.Sent == other.Sent && first.ByManner == other.ByManner {
		t.Errorf("another seed held the same sessions: %+v", other)
	}
}

func TestOptionsRefused(t *testing.T) {
	good := Options{URL: "ws://127.0.0.1:1", Protocol: sim.Vosk, Sessions: 1}
	for want, change := range map[string]func(o *Options){
		`url: invalid address "http://x": use ws://host:port or wss://host:port`: func(o *Options) { o.URL = "http://x" },
		`unknown protocol "chat": use one of echo, vosk, funasr,`:                func(o *Options) { o.Protocol = "chat" },
		`sessions: 0 is out of range: use 1 to`:                                  func(o *Options) { o.Sessions = 0 },
		`concurrency: -1 is out of range`:                                        func(o *Options) { o.Concurrency = -1 },
		`settings: invalid probability 2`:                                        func(o *Options) { o.Settings = 2 },
		`timeout: -1ns is out of range`:                                          func(o *Options) { o.Timeout = -1 },
		`manners: the share -1 of stall is negative`:                             func(o *Options) { o.Manners[Stall] = -1 },
	} {
		o := good
		change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

func TestParseManners(t *testing.T) {
	got, err := ParseManners("clean-end:9, vanish:1")
	if want := (Manners{CleanEnd: 9, Vanish: 1}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"":            `unknown manner "": use one of clean-end, impatient, close-without-end,`,
		"politely:1":  `unknown manner "politely"`,
		"clean-end":   `use name:share`,
		"clean-end:0": "all shares are 0",
	} {
		if _, err := ParseManners(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v; want %s", text, err, want)
		}
	}
}
