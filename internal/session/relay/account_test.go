package relay

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// idly has backends speak a built-in profile on connections that are dialed in advance.
func idly(t *testing.T, name string) func(*backend.Options) {
	return withYAML(t, "profiles: {x: {from: "+name+", predial: idle, variant: none}}")
}

// usedBy returns what the only session has used.
func usedBy(r *rig) (used meter.Used) {
	r.on(func(s *Session) { used = s.used() })
	return used
}

// Audio is measured by the profile's format, as the client names it.
func TestAudioOfSession(t *testing.T) {
	for _, c := range []struct {
		name, profile string
		first         string // text message, before a second of audio at 16 kHz
		want          meter.Audio
	}{
		{"named", "vosk", voskConfig, meter.Audio{Micros: 1e6, Bytes: uint64(len(voskConfig)) + 32000}},
		{"usual", "vosk", "", meter.Audio{Micros: 2e6, Bytes: 32000}},
		{"named in an unusual place", "soniox", `{"api_key":"x","sample_rate":16000,"audio_format":"pcm_s16le","num_channels":2}`, meter.Audio{Micros: 5e5, Bytes: 79 + 32000}},
		{"compressed", "soniox", `{"api_key":"x","audio_format":"auto"}`, meter.Audio{Bytes: 37 + 32000, Unknown: 32000}},
		{"nothing is known", "one-shot", "", meter.Audio{Bytes: 32000, Unknown: 32000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: c.profile, Backend: idly(t, c.profile)})
			client, server := r.Session()
			if c.first != "" {
				for _, b := range client.Encode(true, frame.Text, []byte(c.first)) {
					client.SendBytes([]byte{b})
				}
				if op, got, err := server.Next(); op.Opcode != frame.Text || string(got) != c.first {
					t.Fatalf("the server got %q, %v", got, err)
				}
			}
			audio := strings.Repeat("\x01\x00", 8000)
			for range 2 {
				client.Send(frame.Binary, audio)
				server.Expect(frame.Binary, audio)
			}
			if used := usedBy(r); used.In != c.want {
				t.Errorf("%+v, want %+v", used.In, c.want)
			}
			_ = client.Close()
		})
	}
}

// Base64 in JSON is estimated by the size of the messages.
func TestAudioIsEstimated(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {x: {from: vllm-realtime, predial: idle, variant: none, greeting: none}}")})
	client, server := r.Session()
	message := `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("AAAA", 1600/3*10) + `"}`
	client.Send(frame.Text, message)
	server.Expect(frame.Text, message)
	wstest.Eventually(t, "half a second is counted", func() bool { return usedBy(r).In.Micros > 0 })
	if in := usedBy(r).In; in.Micros < 498_000 || in.Micros > 505_000 || in.Estimated != in.Micros || in.Unknown != 0 {
		t.Errorf("%+v", in)
	}
	_ = client.Close()
}

// Audio of a server counts by the format that the client asked for.
func TestAudioOfServer(t *testing.T) {
	for name, service := range map[string]func(*route.Service){"relayed": nil, "watched": stallingAfter(time.Hour)} {
		t.Run(name, func(t *testing.T) { audioOfServer(t, service) })
	}
}

func audioOfServer(t *testing.T, service func(*route.Service)) {
	r := newRig(t, setup{Backend: idly(t, "cartesia"), Service: service})
	client, server := r.Session()
	for i, rate := range []int{16000, 8000} { // the first request counts
		request := fmt.Sprintf(`{"context_id":"%d","transcript":"x","output_format":{"container":"raw","encoding":"pcm_s16le","sample_rate":%d}}`, i, rate)
		client.Send(frame.Text, request)
		server.Expect(frame.Text, request)
		answer := fmt.Sprintf(`{"type":"chunk","context_id":"%d","data":"%s"}`, i, strings.Repeat("AAAA", 16000/3))
		server.Send(frame.Text, answer)
		client.Expect(frame.Text, answer)
	}
	if out := usedBy(r).Out; out.Micros < 999_000 || out.Micros > 1_003_000 || out.Estimated != out.Micros || out.Unknown != 0 {
		t.Errorf("%+v", out)
	}
	_ = client.Close()
}

// What another server gets once more counts once, and so do its results. What is booked on the way, and at the end, is the whole.
func TestUsageOfMovedSession(t *testing.T) {
	var booked meter.Used
	var ended atomic.Bool
	setBook := func(o *Options) {
		o.Book = func(u Usage) {
			if ended.Load() {
				t.Error("booked twice")
			}
			booked.Add(u.Used)
			ended.Store(true)
		}
	}
	r := newRig(t, sessiontest.Failover("vosk", 2, setup{}), setBook)
	r.AllReady(1, r.Backends...)
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	sessiontest.Speak(client, server, 2, sessiontest.Partial("two"), sessiontest.Partial("two"))
	before := meter.Used{}
	r.sessions.Usage(0, func(u Usage) { before.Add(u.Used) })
	server.Reset()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(2))
	next.Send(frame.Text, sessiontest.Partial("two again")) // the client has got a reply to this
	sessiontest.Speak(client, next, 3, sessiontest.Partial("three"), sessiontest.Partial("three"))
	_ = client.Close()
	wstest.Eventually(t, "the session has ended", ended.Load)
	booked.Add(before)
	chunk := uint64(len(sessiontest.Chunk(0)))
	want := meter.Audio{Micros: 4 * chunk * 1e6 / sessiontest.VoskSecond, Bytes: 4*chunk + uint64(len(sessiontest.VoskConfig))}
	if booked.In != want || booked.Sessions != 1 || booked.Results != 4 {
		t.Errorf("%+v, want %+v, 1 session, 4 results", booked, want)
	}
}

// The greeting of a server is not used, and one that ends the session before it begins there takes nothing away.
func TestUsageOfLegThatEndsAtOnce(t *testing.T) {
	hello := `{"type": "hello", "capabilities": "` + strings.Repeat("x", 1000) + `"}`
	greets := wstest.Accept("", wstest.ServerFrame(true, frame.Text, hello)...)
	refuses := wstest.Accept("", wstest.ServerFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.PolicyViolation, "bad key"))...)
	var dialed atomic.Int32
	first := make(chan int, 1)
	o := sessiontest.Failover("realtimestt", 2, setup{Cap: 2, Queue: 8, Backend: func(o *backend.Options) { o.Settings.Warm = 0 }})
	for i, script := range append([]*wstest.Server{o.Script}, o.More...) {
		script.Answer = func(nc net.Conn, req *handshake.Request) bool {
			if dialed.Add(1) == 1 {
				first <- i
				return greets(nc, req)
			}
			return refuses(nc, req)
		}
	}
	var booked meter.Used
	ended := make(chan struct{})
	r := newRig(t, o, func(o *Options) {
		o.Book = func(u Usage) {
			booked.Add(u.Used)
			close(ended)
		}
	})
	client := r.askFor("", "Authorization: Bearer mine")
	client.Expect(frame.Text, hello)
	r.Scripts[<-first].Take().Reset()
	client.ExpectClose(frame.PolicyViolation, "bad key")
	_ = client.Close()
	wstest.Receive(t, ended, "the usage")
	if booked.Out.Bytes != 0 || booked.Results != 0 {
		t.Errorf("%+v", booked)
	}
}
