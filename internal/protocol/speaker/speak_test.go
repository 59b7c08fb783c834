package speaker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// tone returns a recording of a sound with pauses.
func tone(rate, channels int, length time.Duration) *wav.Audio {
	a := &wav.Audio{SampleRate: rate, Channels: channels, BitsPerSample: 16}
	for i := range int(length.Seconds() * float64(rate)) {
		v := 0.0
		if i*2/rate%2 == 0 {
			v = 12000 * math.Sin(2*math.Pi*440*float64(i)/float64(rate))
		}
		for range channels {
			a.PCM = binary.LittleEndian.AppendUint16(a.PCM, uint16(int16(v)))
		}
	}
	return a
}

func named(t *testing.T, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, o sim.Options) *sim.Server {
	t.Helper()
	s, err := sim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// speak holds a session with a simulated server.
func speak(t *testing.T, server *sim.Server, name string, audio *wav.Audio, o speaker.Options) (*speaker.Result, error) {
	t.Helper()
	p := named(t, name)
	model := ""
	if p.Script().NamesModel() {
		model = "org/model"
	}
	return speakWith(t, server, p, model, audio, o)
}

func speakWith(t *testing.T, server *sim.Server, p *profile.Profile, model string, audio *wav.Audio, o speaker.Options) (*speaker.Result, error) {
	t.Helper()
	r, err := speaker.NewRecording(p, audio, time.Minute, model)
	if errors.Is(err, speaker.ErrTakesText) {
		r, err = speaker.NewText(p, `one "two" three four`, model)
	}
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget("ws://" + server.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	target.Protocol = p.Subprotocol
	target.AddQuery(r.Query())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	established, err := target.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn := speaker.NewConn(established, 10*time.Second)
	defer conn.Abort()
	defer context.AfterFunc(ctx, conn.Abort)()
	o.Token = 0xfeed
	result, err := r.Speak(ctx, conn, o)
	conn.Close(frame.NormalClosure, time.Now().Add(time.Second))
	return result, err
}

// A session with a simulated server of each protocol comes to its end.
func TestSpeak(t *testing.T) {
	for _, name := range sim.ProtocolNames() {
		if named(t, name).Script() == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, sim.Options{Protocol: name})
			result, err := speak(t, server, name, tone(8000, 2, 2030*time.Millisecond), speaker.Options{Pace: 100, First: 10 * time.Second})
			heard := name != sim.Kyutai // which finds words only in audio with marks
			if err != nil || !result.Complete || result.Heard != heard || result.Audio < 3 {
				t.Errorf("%v, complete %v, heard %v, audio %d, %q", err, result.Complete, result.Heard, result.Audio, result.Text)
			}
		})
	}
}

// What is said is words where servers speak, and audio elsewhere.
func TestText(t *testing.T) {
	result, err := speak(t, serve(t, sim.Options{Protocol: sim.Cartesia}), "cartesia", nil, speaker.Options{Pace: 100})
	if err != nil || strings.TrimSpace(result.Text) != `one "two" three four` || result.Audio != 4 {
		t.Errorf("%v, %d words, %q", err, result.Audio, result.Text)
	}
	if _, err := speaker.NewText(named(t, "vosk"), "one", ""); !errors.Is(err, speaker.ErrTakesAudio) {
		t.Errorf("a text for a recogniser: %v", err)
	}
	if _, err := speaker.NewText(named(t, "cartesia"), " ", ""); err == nil {
		t.Error("a text without words")
	}
}

// What a profile says about its clients is what its servers understand of the audio.
func TestScripts(t *testing.T) {
	for _, name := range profile.Names() {
		s := named(t, name).Script()
		if s == nil {
			if name != "one-shot" && name != "azure-speech" { // whose audio has a header
				t.Errorf("%s does not say what a client says", name)
			}
			continue
		}
		if len(s.Texts) == 0 && name != "echo" {
			t.Errorf("%s does not say where results have their text", name)
		}
	}
	if _, err := speaker.NewRecording(named(t, "one-shot"), tone(8000, 1, time.Second), time.Minute, ""); err == nil || !strings.Contains(err.Error(), "does not say what a client says") {
		t.Error(err)
	}
}

// A model is named where servers want one, as JSON has it, and nowhere else. A server that says that the session has failed is not waited for.
func TestModel(t *testing.T) {
	sound := tone(16000, 1, time.Second)
	if _, err := speaker.NewRecording(named(t, "vllm-realtime"), sound, time.Minute, ""); !errors.Is(err, speaker.ErrNoModel) {
		t.Errorf("without a model: %v", err)
	}
	if _, err := speaker.NewRecording(named(t, "vosk"), sound, time.Minute, "m"); !errors.Is(err, speaker.ErrModel) {
		t.Errorf("with a model that no message names: %v", err)
	}
	server := serve(t, sim.Options{Protocol: sim.VLLMRealtime})
	if result, err := speakWith(t, server, named(t, "vllm-realtime"), `the "large" model\1`, sound, speaker.Options{Pace: 100}); err != nil || !result.Complete {
		t.Errorf("%v, %+v", err, result)
	}
	_, err := speakWith(t, server, named(t, "vllm-realtime"), sim.UnknownModel, sound, speaker.Options{Pace: 100})
	if failed := (*speaker.FailedError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("an unknown model: %v", err)
	}
}

// A server that says nothing is late.
func TestLate(t *testing.T) {
	server := serve(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Stall: 1}})
	result, err := speak(t, server, "vosk", tone(16000, 1, time.Second), speaker.Options{Pace: 100, First: 20 * time.Millisecond})
	var late *speaker.LateError
	if !errors.As(err, &late) || late.What != "result" || result.Heard || result.Complete {
		t.Errorf("%v, %+v", err, result)
	}
	server = serve(t, sim.Options{Protocol: sim.Watson, Nasty: sim.NastyOptions{ResetIgnored: 1}})
	_, err = speak(t, server, "watson", tone(16000, 1, time.Second), speaker.Options{Last: 20 * time.Millisecond})
	if !errors.As(err, &late) || late.What != "last result" {
		t.Error(err)
	}
	server = serve(t, sim.Options{Protocol: sim.Watson, Nasty: sim.NastyOptions{GreetingDelayed: 1}})
	_, err = speak(t, server, "watson", tone(16000, 1, time.Second), speaker.Options{Ready: 10 * time.Millisecond})
	if !errors.As(err, &late) || late.What != "message that the server is ready" {
		t.Error(err)
	}
}

// A session that is to be brief ends after its first result, and one that is cut has no end.
func TestBriefAndCut(t *testing.T) {
	server := serve(t, sim.Options{Protocol: sim.DashScope})
	brief, err := speak(t, server, "dashscope", tone(16000, 1, 40*time.Second), speaker.Options{Pace: 2, Brief: true})
	if err != nil || !brief.Complete || brief.Audio > 300 { // of 400; without the rest of a busy machine, 3
		t.Errorf("%v, %d messages of audio, complete %v", err, brief.Audio, brief.Complete)
	}
	cut, err := speak(t, server, "dashscope", tone(16000, 1, 2*time.Second), speaker.Options{Cut: 3})
	if err != nil || cut.Complete || cut.Audio != 3 || cut.Over != 0 {
		t.Errorf("%v, %+v", err, cut)
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		said, wanted string
		want         bool
	}{
		{"One, two: THREE.", "two three", true},
		{"One, two: THREE.", "two thre", false},
		{"twenty two three", "Two... Three!", true},
		{"it's fine", "its", false},
		{"語。音", "語 音", true},
		{"anything", "", true},
		{"", "a", false},
	} {
		if got := speaker.Contains(c.said, c.wanted); got != c.want {
			t.Errorf("%q in %q: %v", c.wanted, c.said, got)
		}
	}
}

// closing is a line whose server says nothing, and closes with a code when it has got the client's end, which it takes after some time.
type closing struct {
	code  frame.CloseCode
	takes time.Duration
	ended bool
}

func (l *closing) Send(m speaker.Message) error {
	if l.ended = m.Opcode == frame.Text && strings.Contains(string(m.Payload), "eof"); l.ended {
		time.Sleep(l.takes)
	}
	return nil
}

func (l *closing) Receive(time.Time) (speaker.Message, error) {
	if l.ended {
		return speaker.Message{}, &speaker.CloseError{Code: l.code}
	}
	return speaker.Message{}, speaker.ErrTimeout
}

// A server that closes in order has said its last word; one that fails has not.
func TestClosedInOrder(t *testing.T) {
	p, err := profile.Named(sim.Vosk)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := speaker.NewRecording(p, tone(8000, 1, time.Second), time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	for code, complete := range map[frame.CloseCode]bool{frame.NormalClosure: true, frame.NoStatus: true, frame.InternalError: false} {
		result, err := recording.Speak(t.Context(), &closing{code: code}, speaker.Options{Pace: 1000})
		if result.Complete != complete || (err == nil) != complete {
			t.Errorf("close code %v: complete %v, %v", code, result.Complete, err)
		}
	}
}

// The time to the last message includes what a server needs to take the end.
func TestOverBeforeItIsTaken(t *testing.T) {
	recording, err := speaker.NewRecording(named(t, sim.Vosk), tone(8000, 1, time.Second), time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		result, err := recording.Speak(t.Context(), &closing{code: frame.NormalClosure, takes: time.Second}, speaker.Options{})
		if err != nil || result.Over != 0 {
			t.Errorf("%v, the end was due after %v", err, result.Over)
		}
	})
}

// The beginning of a recording is whole messages of it.
func TestAtMost(t *testing.T) {
	r, err := speaker.NewRecording(named(t, sim.Vosk), tone(8000, 1, 2*time.Second), time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	chunk := r.Length() / time.Duration(r.Chunks())
	for long, chunks := range map[time.Duration]int{time.Minute: r.Chunks(), r.Length(): r.Chunks(), 2*chunk + chunk/2: 2, time.Millisecond: 1} {
		first := r.AtMost(long)
		if first.Chunks() != chunks || first.Length() != time.Duration(chunks)*chunk || !bytes.Equal(first.Chunk(chunks-1, 0).Payload, r.Chunk(chunks-1, 0).Payload) {
			t.Errorf("at most %v: %d messages, %v", long, first.Chunks(), first.Length())
		}
	}
}

// Only what is used of a long recording costs memory, whatever its sample rate, and it is as if the file had no more.
func TestRecordingCostsWhatIsUsed(t *testing.T) {
	p := named(t, sim.Vosk)
	for _, rate := range []int{1000, 44100} {
		long, short := tone(rate, 2, 2*time.Minute), tone(rate, 2, 2*time.Second)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := speaker.NewRecording(p, long, time.Second, "")
		runtime.ReadMemStats(&after)
		want, wantErr := speaker.NewRecording(p, short, time.Second, "")
		if err != nil || wantErr != nil || got.Length() != time.Second || got.Chunks() != want.Chunks() {
			t.Fatalf("%v, %v", err, wantErr)
		}
		for i := range got.Chunks() {
			if !bytes.Equal(got.Chunk(i, 0).Payload, want.Chunk(i, 0).Payload) {
				t.Errorf("%d Hz: message %d differs", rate, i)
			}
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 2<<20 { // two minutes at 16 kHz are 7 MiB
			t.Errorf("%d Hz: a second of it took %d bytes", rate, allocated)
		}
	}
}
