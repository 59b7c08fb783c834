package sim

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func now() time.Duration { return time.Since(began) }

var began = time.Now()

// nasty starts a server that is.
func nasty(t *testing.T, protocol, list string) *Server {
	t.Helper()
	n, err := ParseNasty(list)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, Options{Protocol: protocol, Nasty: n})
}

func TestParseNasty(t *testing.T) {
	for text, want := range map[string]NastyOptions{
		"":                                {},
		"late-partials":                   {LatePartials: 1},
		"overtaken-final:0.5":             {OvertakenFinal: 0.5},
		"sticky-settings, reset-ignored":  {StickySettings: 1, ResetIgnored: 1},
		"reset-foreign,full:4":            {ResetForeign: 1, Full: 4},
		"greeting-delayed:0.25":           {GreetingDelayed: 0.25},
		"silent-death:0.1":                {SilentDeath: 0.1},
		"close-mid-message:0.1":           {CloseMidMessage: 0.1},
		"punctuation-memory,early-done:1": {PunctuationMemory: 1, EarlyDone: 1},
	} {
		if got, err := ParseNasty(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"rude":              `nasty: "rude": unknown switch "rude": use one of late-partials, overtaken-final, sticky-settings,`,
		"late-partials:2":   `invalid probability "2"`,
		"full":              "use full:n, where n is 1 or more",
		"full:0":            "use full:n",
		"reset-ignored:":    `invalid probability ""`,
		"silent-death:-0.1": "invalid probability",
	} {
		if got, err := ParseNasty(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestNastyRefused(t *testing.T) {
	for _, known := range nastyNames {
		for _, p := range []float64{-1, 2, math.NaN()} {
			var n NastyOptions
			*known.field(&n) = p
			if err := (Options{Nasty: n}).Validate(); err == nil || !strings.Contains(err.Error(), known.name) {
				t.Errorf("%s %v: got %v", known.name, p, err)
			}
		}
	}
}

// Every word of the help is one that is understood, and every switch is in it.
func TestNastyHelp(t *testing.T) {
	for _, name := range NastyNames() {
		if !strings.Contains("\n"+NastyHelp, "\n"+name) {
			t.Errorf("no help for %s", name)
		}
	}
	for line := range strings.Lines(NastyHelp) {
		form, _, ok := strings.Cut(line, "  ")
		if !ok {
			continue
		}
		form = strings.NewReplacer("[:p]", ":1", ":n", ":1").Replace(form)
		if _, err := ParseNasty(form); err != nil {
			t.Errorf("%q: %v", form, err)
		}
	}
}

func TestLatePartials(t *testing.T) {
	talk(t, nasty(t, SherpaONNX, "late-partials"), "/", `
		> audio 1
		< "is_final":false
		> Done
		< "is_final":true
		< ^Done!$
		< "text":"s7:1",.*"is_final":false
	`)
	// A server that closes has no later.
	talk(t, nasty(t, Vosk, "late-partials"), "/", `
		> audio 1 x20
		< "partial"
		> {"eof" : 1}
		< "text" : "s7:1"
		< "partial" : "s7:1"
		< close 1000
	`)
}

func TestOvertakenFinal(t *testing.T) {
	talk(t, nasty(t, SherpaONNX, "overtaken-final"), "/", `
		> audio 1
		< "is_final":false
		> Done
		< ^Done!$
		< "text":"s7:1",.*"is_final":true
	`)
	talk(t, nasty(t, Speechmatics, "overtaken-final"), "/", `
		> {"message": "StartRecognition"}
		< "RecognitionStarted"
		> audio 1
		< "AudioAdded"
		< "AddPartialTranscript"
		> {"message": "EndOfStream", "last_seq_no": 1}
		< "EndOfTranscript"
		< "AddTranscript"
		< close 1000
	`)
}

func TestStickySettings(t *testing.T) {
	for list, want := range map[string]string{"": `"text":"s7:2"`, "sticky-settings": `"text":"s7:2 s7:0"`} {
		talk(t, nasty(t, DashScope, list), "/", `
			> {"header":{"action":"run-task","task_id":"a"},"payload":{"parameters":{"vocabulary_id":"s7:0"}}}
			< task-started
			> {"header":{"action":"finish-task","task_id":"a"}}
			< task-finished
			> {"header":{"action":"run-task","task_id":"b"}}
			< task-started
			> audio 2
			< `+want+`
		`)
	}
}

// Neither answered nor carried out: the next audio is added to what was there.
func TestResetIgnored(t *testing.T) {
	for protocol, script := range map[string]string{
		Vosk: `
			> audio 1 x20
			< "partial" : "s7:1"
			> {"reset" : 1}
			> audio 2 x20
			< "partial" : "s7:1-2"`,
		FunASR: `
			> {"chunk_size": [5, 10, 5], "mode": "offline"}
			> audio 1
			> {"is_speaking": false, "is_end": true}
			> audio 2
			> {"is_speaking": false}
			< "text": "s7:1-2"`,
		SherpaONNX: `
			> audio 1
			< "s7:1"
			> Done
			> audio 2
			< "text":"s7:1-2"`,
		DashScope: `
			> {"header":{"action":"run-task","task_id":"a"}}
			< task-started
			> audio 1
			< s7:1
			> {"header":{"action":"finish-task","task_id":"a"}}
			> audio 2
			< "text":"s7:1-2"`,
		VLLMRealtime: `
			< session.created
			> {"type":"session.update","model":"m"}
			> {"type":"input_audio_buffer.commit"}
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			< s7:1
			> {"type":"input_audio_buffer.commit","final":true}
			> {"type":"input_audio_buffer.append","audio":"[2]"}
			< "delta":" s7:2"`,
		Watson: `
			> {"action": "start", "interim_results": true}
			< listening
			> audio 1
			< s7:1
			> {"action": "stop"}
			> audio 2
			< "transcript": "s7:1-2"`,
	} {
		t.Run(protocol, func(t *testing.T) { talk(t, nasty(t, protocol, "reset-ignored"), "/", script) })
	}
	t.Run(Kyutai, func(t *testing.T) {
		c := kyutaiClient{dial(t, nasty(t, Kyutai, "reset-ignored"))}
		c.wants(t, "Ready")
		c.audio(t, Mark{Session: 7, Seq: 1}, kyutaiFrame)
		c.send(t, AppendKyutai(nil, "Init", 0))
		for range kyutaiDelay {
			c.audio(t, Mark{}, kyutaiFrame)
		}
		c.wants(t, "Word s7:1")
	})
}

func TestResetForeign(t *testing.T) {
	talk(t, nasty(t, DashScope, "reset-foreign"), "/", `
		> {"header":{"action":"run-task","task_id":"a"}}
		< task-started
		> {"header":{"action":"finish-task","task_id":"a"}}
		< "task_id":"a","event":"task-finished"
		> {"header":{"action":"run-task","task_id":"b"}}
		< task-started
		> {"header":{"action":"finish-task","task_id":"b"}}
		< "task_id":"a","event":"task-finished"
		< "task_id":"b","event":"task-finished"
	`)
	talk(t, nasty(t, Vosk, "reset-foreign"), "/", `
		> audio 1 x20
		< "partial"
		> {"reset" : 1}
		< "text" : "s7:1"
		> audio 3 x20
		< "partial" : "s7:3"
		> {"reset" : 1}
		< "text" : "s7:1"
		< "text" : "s7:3"
	`)
}

func TestGreetingDelayed(t *testing.T) {
	for protocol, script := range map[string]string{
		VLLMRealtime: "< session.created",
		WhisperLive:  "> {\"uid\": \"u\"}\n< SERVER_READY",
	} {
		begin := now()
		talk(t, nasty(t, protocol, "greeting-delayed"), "/", script)
		if waited := now() - begin; waited < greetLate {
			t.Errorf("%s: greeted after %v", protocol, waited)
		}
	}
}

// A dead session says nothing, but its server answers pings and a close.
func TestSilentDeath(t *testing.T) {
	c := dialRaw(t, nasty(t, Vosk, "silent-death"))
	c.SendBytes(wstest.ClientFrame(true, frame.Binary, AppendMark(nil, Mark{Session: 7, Seq: 1}, 4)))
	c.SendBytes(wstest.ClientFrame(true, frame.Text, []byte(voskReset)))
	c.SendBytes(wstest.ClientFrame(true, frame.Ping, []byte("there?")))
	c.SendBytes(wstest.ClientFrame(true, frame.Close, []byte("\x03\xe8")))
	got, err := io.ReadAll(c)
	if want := "\x8a\x06there?\x88\x02\x03\xe8"; string(got) != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestCloseMidMessage(t *testing.T) {
	c := dialRaw(t, nasty(t, Vosk, "close-mid-message"))
	c.SendBytes(wstest.ClientFrame(true, frame.Binary, AppendMark(nil, Mark{Session: 7, Seq: 1}, 20)))
	got, err := io.ReadAll(c)
	if err != nil || len(got) < 3 || got[0] != byte(frame.Text) { // no FIN
		t.Fatalf("got %q, %v; want a fragment", got, err)
	}
	closing := got[2+int(got[1]):]
	if len(closing) < 4 || closing[0] != 0x88 {
		t.Fatalf("got %q behind the fragment; want a close frame", closing)
	}
	if code, _, err := frame.ParseClose(closing[2:]); code != frame.InternalError || err != nil {
		t.Errorf("got %v, %v; want 1011", code, err)
	}
}

func TestEarlyDone(t *testing.T) {
	talk(t, nasty(t, VLLMRealtime, "early-done"), "/", `
		< session.created
		> {"type":"session.update","model":"m"}
		> {"type":"input_audio_buffer.commit"}
		> {"type":"input_audio_buffer.append","audio":"[1]"}
		< "delta":"s7:1"
		< "transcription.done","text":"s7:1"
		> {"type":"input_audio_buffer.append","audio":"[2]"}
		> {"type":"input_audio_buffer.commit"}
		< "delta":"s7:2"
		< "transcription.done","text":"s7:2"
	`)
}

// What WhisperLive has not finally transcribed when the audio ends is lost.
func TestDroppedEnd(t *testing.T) {
	talk(t, nasty(t, WhisperLive, "dropped-end"), "/", `
		> {"uid": "u", "audio_format": "int16"}
		< SERVER_READY
		> audio 1 pause
		< "text": "s7:1", "completed": true
		> audio 2
		< "text": "s7:2", "completed": false
		> binary END_OF_AUDIO
		< close 1000
	`)
}

// A server that admits so many sessions a second refuses others as if it were full, whatever has ended meanwhile.
func TestAdmissions(t *testing.T) {
	s := nasty(t, WhisperLive, "admissions:2")
	tokens := func(left float64) { // however long the sessions take
		s.places.mu.Lock()
		s.places.tokens, s.places.filled = left, time.Time{}
		s.places.mu.Unlock()
	}
	for range 2 {
		talk(t, s, "/", "> {\"uid\": \"u\"}\n< SERVER_READY")
	}
	tokens(0)
	talk(t, s, "/", "> {\"uid\": \"u\"}\n< \"status\": \"WAIT\"\n< close 1000")
	tokens(1)
	talk(t, s, "/", "> {\"uid\": \"u\"}\n< SERVER_READY")
}

func TestAdmissionsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{rate: 2, tokens: 2}
		for i, after := range []time.Duration{0, 0, 499 * ms, 2 * ms, 0, 10 * time.Second, 0, 0} {
			time.Sleep(after)
			if want := i != 2 && i != 4 && i != 7; s.take() != want {
				t.Errorf("%d: want %v", i, want)
			}
		}
	})
}

// Each protocol says in its own way that it is full, and takes another when a place comes free.
func TestFull(t *testing.T) {
	for protocol, want := range map[string]string{
		WhisperLive:        "> {\"uid\": \"u\"}\n< \"status\": \"WAIT\"\n< close 1000",
		WhisperLiveKit:     "< close 1013",
		RealtimeSTT:        "< \"code\":\"session_limit\"\n< close 1013",
		AssemblyAI:         "< \"type\":\"Error\",\"error_code\":3009\n< close 3009",
		Speechmatics:       "> {\"message\": \"StartRecognition\"}\n< \"type\": \"quota_exceeded\"\n< close 4005",
		Soniox:             "> {\"model\": \"m\", \"audio_format\": \"auto\"}\n< \"error_code\":429\n< close 1000",
		KaldiGStreamer:     "< \"status\": 9\n< close 1000",
		KyutaiTTS:          "< no free channels\n< close 1005",
		Cartesia:           "> {\"model_id\": \"m\", \"context_id\": \"b\"}\n< \"status_code\":429,\"error_code\":\"concurrency_limited\"",
		ElevenLabsTTS:      "429",
		AzureSpeech:        "429",
		VLLMOmni:           "> {\"type\":\"session.update\"}\n< \"code\":\"resource_exhausted\"",
		SGLangRealtime:     "< \"code\":\"too_many_sessions\"\n< close 1000",
		Deepgram:           "429",
		DashScope:          "429",
		Watson:             "429",
		Gladia:             "429",
		OpenAIRealtime:     "429",
		OpenAITranslations: "429",
		Echo:               "503",
		Vosk:               "503",
		FunASR:             "503",
		FunASRRealtime:     "503",
		SherpaONNX:         "503",
		SherpaPython:       "503",
		VLLMRealtime:       "503",
		SGLangOmni:         "503",
		NVIDIARealtime:     "503",
	} {
		t.Run(protocol, func(t *testing.T) {
			s := nasty(t, protocol, "full:1")
			first := dial(t, s)
			converse(t, first, 7, map[string]string{ // takes the place
				WhisperLive:    "> {\"uid\": \"u\"}\n< SERVER_READY",
				WhisperLiveKit: "< config",
				RealtimeSTT:    "< hello",
				AssemblyAI:     "< Begin",
				Speechmatics:   "> {\"message\": \"StartRecognition\"}\n< RecognitionStarted",
				Soniox:         "> {\"model\": \"m\", \"audio_format\": \"auto\"}\n> audio 1\n< s7:1",
				KaldiGStreamer: "> audio 1\n< s7:1",
				SGLangRealtime: "< session.created",
				VLLMOmni:       "> {\"type\":\"session.update\"}\n< session.created",
				Cartesia:       "> {\"model_id\": \"m\", \"context_id\": \"a\"}\n< done",
				KyutaiTTS:      "< Ready",
			}[protocol])
			if !strings.HasPrefix(want, "4") && !strings.HasPrefix(want, "5") {
				talk(t, s, "/", want)
			} else if _, response := request(t, s, wstest.UpgradeRequest("/")); !strings.HasPrefix(response.Status, want) {
				t.Fatalf("got %s; want %s", response.Status, want)
			}
			_ = first.CloseNow()
			wstest.Eventually(t, "the connection ends", func() bool { return s.places.stats().Connections == 0 })
			if s.protocol.fullStatus != 0 {
				if _, response := request(t, s, wstest.UpgradeRequest("/")); response.StatusCode != http.StatusSwitchingProtocols {
					t.Errorf("with the place free: got %s", response.Status)
				}
			}
		})
	}
}
