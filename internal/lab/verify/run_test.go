package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// sounds returns a recording of sounds that last so long each, with pauses between them that end an utterance.
func sounds(lengths ...time.Duration) *wav.Audio {
	const rate = 16000
	a := &wav.Audio{SampleRate: rate, Channels: 1, BitsPerSample: 16}
	for i, length := range lengths {
		for j := range int(length.Seconds() * rate) {
			v := float64(6000+2000*i) * math.Sin(2*math.Pi*440*float64(j)/rate)
			a.PCM = binary.LittleEndian.AppendUint16(a.PCM, uint16(int16(v)))
		}
		a.PCM = append(a.PCM, make([]byte, rate*2*6/10)...)
	}
	return a
}

// marked returns a recording in which the simulated FunASR finds speech: with marks, and a pause in the middle.
func marked(session uint64) *wav.Audio {
	a := &wav.Audio{SampleRate: 16000, Channels: 1, BitsPerSample: 16}
	for chunk := range uint16(20) {
		a.PCM = sim.AppendMark(a.PCM, sim.Mark{Session: session, Seq: chunk + 1, Pause: chunk == 12}, 1920/sim.MarkSize)
	}
	return a
}

// try verifies a profile on a simulated server.
func try(t *testing.T, name string, server sim.Options, change func(*Options)) (*Report, error) {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if name == sim.WhisperLive { // the simulated one drops nothing
		p = without(t, name, "client: {pause: 0s}")
	}
	s, err := sim.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	target, err := handshake.ParseTarget(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	target.Protocol = p.Subprotocol
	target.AddQuery(p.Script().Query)
	o := Options{Profile: p, Target: target, Connections: 60, Wait: 5 * time.Second, Watch: 30 * time.Millisecond, Pace: 50, Seed: 7}
	audios := []*wav.Audio{sounds(300*time.Millisecond, 500*time.Millisecond), sounds(400 * time.Millisecond)}
	if name == sim.FunASR {
		audios = []*wav.Audio{marked(1), marked(2)}
	}
	for i, audio := range audios {
		model := ""
		if p.Script().NamesModel() {
			model = `a "model"`
		}
		r, err := speaker.NewRecording(p, audio, time.Minute, model)
		if errors.Is(err, speaker.ErrTakesText) {
			r, err = speaker.NewText(p, []string{"one two three four five", "six seven eight"}[i], model)
		}
		if err != nil {
			t.Fatal(err)
		}
		o.Recordings = append(o.Recordings, r)
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return Run(ctx, o)
}

// without returns a built-in profile with a change.
func without(t *testing.T, name, change string) *profile.Profile {
	t.Helper()
	profiles, err := profile.Parse("test", []byte("profiles: {"+name+"-changed: {from: "+name+", "+change+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	return profiles[0]
}

func show(t *testing.T, r *Report) {
	t.Helper()
	for _, c := range r.Claims {
		t.Logf("%-10s %-14s %s: %s\n    %s", c.Name, c.Verdict, c.Says, c.Why, strings.Join(c.Evidence, "\n    "))
	}
}

// What built-in profiles of each way of reuse and of each kind of times claim holds on the simulated servers.
func TestHolds(t *testing.T) {
	for _, name := range []string{sim.Vosk, sim.FunASR, sim.FunASRRealtime, sim.DashScope, sim.Watson, sim.SherpaONNX, sim.SherpaPython, sim.WhisperLive, sim.RealtimeSTT, sim.VLLMRealtime, sim.Soniox, sim.Gladia, sim.KyutaiTTS, sim.Cartesia, sim.ElevenLabsTTS, sim.SGLangRealtime, sim.SGLangOmni, sim.VLLMOmni, sim.NVIDIARealtime, sim.OpenAITranslations} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := try(t, name, sim.Options{Protocol: name}, nil)
			if err != nil || !r.Holds() || testing.Verbose() {
				t.Logf("%v", err)
				show(t, r)
			}
			if err != nil || !r.Holds() {
				t.Error("something does not hold")
			}
		})
	}
}

// A server that users take for the profile's is named with its own profile.
func TestLookalike(t *testing.T) {
	_, err := try(t, sim.FunASR, sim.Options{Protocol: sim.FunASRRealtime}, func(o *Options) { o.Target.Lookalike = o.Profile.Lookalike })
	if err == nil || !strings.Contains(err.Error(), "the profile funasr-realtime") {
		t.Error(err)
	}
}

// Each bad habit that contradicts the profile is found, by the claim that it contradicts.
func TestFinds(t *testing.T) {
	dashScopeSettings := []string{`{"header": {"action": "run-task", "task_id": "$token", "streaming": "duplex"}, "payload": {"parameters": {"vocabulary_id": "hot-words"}, "input": {}}}`}
	for name, c := range map[string]struct {
		protocol string
		nasty    sim.NastyOptions
		fail     sim.FailOptions
		settings []string
		claim    string
		says     string
	}{
		"late partials":      {sim.Vosk, sim.NastyOptions{LatePartials: 1}, sim.FailOptions{}, nil, "replies", "replies to"},
		"late in a session":  {sim.FunASR, sim.NastyOptions{LatePartials: 1}, sim.FailOptions{}, nil, "order", "2pass-online"},
		"overtaken final":    {sim.Watson, sim.NastyOptions{OvertakenFinal: 1}, sim.FailOptions{}, nil, "order", `"final": true`},
		"sticky settings":    {sim.DashScope, sim.NastyOptions{StickySettings: 1}, sim.FailOptions{}, dashScopeSettings, "settings", "hot-words"},
		"reset ignored":      {sim.Vosk, sim.NastyOptions{ResetIgnored: 1}, sim.FailOptions{}, nil, "reset", ""},
		"reset ignored by F": {sim.FunASR, sim.NastyOptions{ResetIgnored: 1}, sim.FailOptions{}, nil, "session", "no last result"},
		"foreign answer":     {sim.Vosk, sim.NastyOptions{ResetForeign: 1}, sim.FailOptions{}, nil, "reset", ""},
		"foreign fence":      {sim.Watson, sim.NastyOptions{ResetForeign: 1}, sim.FailOptions{}, nil, "reset", ""},
		"silent death":       {sim.Vosk, sim.NastyOptions{SilentDeath: 1}, sim.FailOptions{}, nil, "session", "no last result within"},
		"close mid message":  {sim.Vosk, sim.NastyOptions{CloseMidMessage: 1}, sim.FailOptions{}, nil, "session", "closed with code 1011"},
		"punctuation":        {sim.FunASR, sim.NastyOptions{PunctuationMemory: 1}, sim.FailOptions{}, nil, "reset", "punc"},
		"early done":         {sim.VLLMRealtime, sim.NastyOptions{EarlyDone: 1}, sim.FailOptions{}, nil, "session", ""},
		"unasked greeting":   {sim.Vosk, sim.NastyOptions{}, sim.FailOptions{Greeting: true}, nil, "greeting", "said something"},
		"chatter":            {sim.Watson, sim.NastyOptions{}, sim.FailOptions{Late: 1, LateAfter: time.Millisecond}, nil, "order", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 1
			if name == "early done" { // it shows only if the server answers before the client has sent everything, which a busy machine may prevent
				tries = 8
			}
			var r *Report
			var err error
			for range tries {
				r, err = try(t, c.protocol, sim.Options{Protocol: c.protocol, Nasty: c.nasty, Fail: c.fail}, func(o *Options) {
					o.Settings = c.settings
					switch name {
					case "silent death", "reset ignored", "reset ignored by F", "early done": // what is awaited does not come
						o.Wait = time.Second
					case "unasked greeting": // there is one chance to hear it
						o.Watch = 500 * time.Millisecond
					}
				})
				for _, claim := range r.Claims {
					if claim.Name == c.claim && claim.Verdict == Fails && strings.Contains(claim.Why+strings.Join(claim.Evidence, " "), c.says) {
						return
					}
				}
			}
			t.Errorf("it was not found that %s does not hold: %v", c.claim, err)
			show(t, r)
		})
	}
}

// A server that is full is told, and what is allowed ends it.
func TestBounds(t *testing.T) {
	for _, name := range []string{sim.WhisperLive, sim.Soniox, sim.KyutaiTTS, sim.Cartesia} { // of which one says that it is ready, and the other does not
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := try(t, name, sim.Options{Protocol: name, Nasty: sim.NastyOptions{Full: 3}}, nil)
			last := r.Claims[len(r.Claims)-1]
			if err != nil || last.Name != "busy" || last.Verdict != Holds || !strings.Contains(last.Why, "with 3 sessions open") {
				t.Errorf("%v, %+v", err, last)
			}
		})
	}
	r, err := try(t, sim.Watson, sim.Options{Protocol: sim.Watson}, func(o *Options) { o.Connections = 6 })
	if err != nil || r.Connections != 6 || !r.Holds() || r.Claims[len(r.Claims)-1].Verdict != NotTried {
		t.Errorf("%v, %d connections, %v", err, r.Connections, r.Holds())
	}
	if r, err = try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}}, nil); err == nil || r.Holds() {
		t.Errorf("a server that refuses everybody: %v, %+v", err, r)
	}
}

// A model with dither is not the same each time, which says nothing about its connections. With these seeds the first direct sessions are alike.
func TestDither(t *testing.T) {
	for _, seed := range []uint64{0, 1, 3} {
		r, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk, Nasty: sim.NastyOptions{Dither: 0.3}, Seed: seed}, nil)
		if err != nil || !r.Holds() {
			t.Errorf("seed %d: %v", seed, err)
			show(t, r)
		}
		if !slices.ContainsFunc(r.Claims, func(c Claim) bool {
			return strings.Contains(c.Why, "further direct sessions differ in it: result[].conf")
		}) {
			t.Errorf("seed %d: the report does not say what was not compared", seed)
			show(t, r)
		}
	}
}

// A full server that says so when the client can no longer move loses that client: the claim does not hold.
func TestFullTooLate(t *testing.T) {
	for change, holds := range map[string]bool{"ready: none, client: {pause: 0s, ready: none}": false, "client: {pause: 0s}": true} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			r, err := try(t, sim.WhisperLive, sim.Options{Protocol: sim.WhisperLive, Nasty: sim.NastyOptions{Full: 3}}, func(o *Options) {
				o.Profile = without(t, sim.WhisperLive, change)
				for i, audio := range []*wav.Audio{sounds(300*time.Millisecond, 500*time.Millisecond), sounds(400 * time.Millisecond)} {
					var err error
					if o.Recordings[i], err = speaker.NewRecording(o.Profile, audio, time.Minute, ""); err != nil {
						t.Fatal(err)
					}
				}
			})
			i := slices.IndexFunc(r.Claims, func(c Claim) bool { return c.Name == "busy" })
			if err != nil || i < 0 || (r.Claims[i].Verdict == Holds) != holds {
				t.Errorf("%s: %v", change, err)
				show(t, r)
			}
		})
	}
}
