package profile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// everyKey is a profile that uses every key of failover.
const everyKey = `
profiles:
  every:
    reuse: lockstep
    stateless: true
    end: {client: {text: bye}}
    failover:
      verdict: visible
      why: some words come twice
      only: {query: {intent: transcription}}
      unless: {query: {multichannel: ['true', yes], mode: diff}}
      audio:
        messages: [{json: {type: audio}}, {json: {type: more}}]
        base64: data.audio
        encoding: {default: s16le, query: encoding, message: config.encoding, names: {linear16: s16le, opus: other}}
        rate: {default: 16000, message: config.type, within: rate}
        channels: {default: 2, query: channels, names: {stereo: 2}}
        least: 50ms
      configure:
        - {messages: {json: {type: start}}, resend: merged, except: {json: {type: start, empty: true}}}
        - {messages: {json: {type: model}}, resend: all}
      forget: [{json: {type: ping}}, {msgpack: {type: ping}}]
      answered:
        - {messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}
        - {messages: {json: {segments: "*"}}, by: time, times: "segments[].end", where: {completed: true}, most: true, unit: clock}
        - {messages: {json: {type: utterance}}, by: utterance, margin: 200ms}
        - {messages: {json: {type: end}}, by: next, times: start_time, unit: ms}
        - {messages: {json: {type: reply}}, by: count}
        - {messages: {json: {type: result}}, by: unknown}
        - {messages: {json: {type: item}}, by: marker, marker: {json: {type: commit}}, accepted: {json: {type: committed}}, refused: {text: no}, id: item}
      final: {json: {type: final}}
      partial: [{json: {type: partial}}, {json: {final: false}}]
      heartbeat: {json: {type: heartbeat}}
      shift:
        - {path: "results[].alternatives[].timestamps[][1]", unit: s}
        - {path: duration, unit: ms, when: {json: {type: Metadata}}}
        - {path: 'a\.b[2].c', unit: clock}
      renumber: [{path: segment, first: 0, unless: {json: {text: ''}}}, {path: "sentences[].id", first: 1}]
      hide: [{messages: {json: {type: hello}}}, {messages: {json: {state: listening}}, most: 1}]
      prepend: {path: segments, final: {completed: true}, most: 10}
      last-word: {close: [1000, 4000-4999], messages: {json: {type: error}}}
      pace: 1.25
      stall: cadence
      times: connection
`

// A profile is printed in the form in which it is read, whatever it says, and whatever it inherits.
func TestFailoverPrinted(t *testing.T) {
	texts := []string{everyKey, "profiles: {p: {from: every, failover: {pace: none, last-word: none}}}", "profiles: {p: {failover: {why: it keeps state}}}"}
	for _, name := range Names() {
		texts = append(texts, string(BuiltInYAML(name)))
	}
	for _, text := range texts {
		if strings.Contains(text, "from: every") {
			text = everyKey + strings.TrimPrefix(text, "profiles: {p: ")
			text = strings.Replace(text, "{from: every, failover", "  heir: {from: every, failover", 1)
			text = strings.TrimSuffix(text, "}")
		}
		list, err := parse("test.yaml", []byte(text), func(string) bool { return false })
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		for _, p := range list {
			printed := p.YAML()
			again, err := parse("again.yaml", printed, func(string) bool { return false })
			if err != nil {
				t.Fatalf("%s is printed as\n%s\nwhich is refused: %v", p.Name, printed, err)
			}
			if got := again[0].YAML(); !bytes.Equal(got, printed) {
				t.Errorf("%s is printed as\n%s\nand then as\n%s", p.Name, printed, got)
			}
		}
	}
	p := mustParse(t, everyKey)
	printed := string(p.YAML())
	for line := range strings.Lines(everyKey) { // nothing is lost on the way
		for _, word := range strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" {}[],:\n\"'", c) }) {
			if word != "-" && !strings.Contains(printed, word) {
				t.Errorf("%q is not printed:\n%s", word, printed)
			}
		}
	}
}

// A mapping inherits key by key, a list is replaced as a whole, and none removes.
func TestFailoverInherited(t *testing.T) {
	heir := func(text string) *Failover {
		t.Helper()
		return mustParse(t, everyKey+"  heir: {from: every, failover: "+text+"}\n").Failover()
	}
	f := heir("{pace: 2, audio: {rate: 8000, encoding: {default: mulaw}}, forget: none, hide: {messages: {text: hi}}}")
	switch {
	case f.Pace != 2 || f.Verdict != Visible || f.Why != "some words come twice" || f.Stall != StallCadence || !f.Continues:
		t.Errorf("%+v", f)
	case f.audio.rate.value != "8000" || f.audio.rate.message != nil:
		t.Errorf("a plain value replaces all: %+v", f.audio.rate)
	case f.audio.encoding.value != "mulaw" || f.audio.encoding.query != "encoding" || len(f.audio.encoding.names) != 2:
		t.Errorf("a mapping inherits key by key: %+v", f.audio.encoding)
	case f.forget != nil || len(f.hide) != 1 || len(f.answered) != 7:
		t.Errorf("%+v", f)
	}
	if f := heir("none"); f.Verdict != Never || f.Why != unknownWhy || f.Pace != defaultPace || f.answered != nil || f.audio.messages != nil {
		t.Errorf("%+v", f)
	}
	if f := heir("{verdict: full}"); f.Verdict != Full || f.Why != "" {
		t.Errorf("%+v", f)
	}
	if f := heir("{last-word: none, prepend: none, times: session, stall: none, pace: none}"); f.lastWord.close != nil || f.lastWord.messages != nil ||
		f.prepend.path != nil || f.Continues || f.Stall != StallNone || f.Pace != 0 {
		t.Errorf("%+v", f)
	}
	every := mustParse(t, everyKey).Failover()
	if len(every.audio.encoding.names) != 2 || every.audio.rate.value != "16000" || !slices.Equal(every.lastWord.close, []codeRange{{1000, 1000}, {4000, 4999}}) {
		t.Errorf("the heirs have changed what they inherit from: %+v", every)
	}
	if f := mustParse(t, "profiles: {p: {}}").Failover(); f.Verdict != Never || f.Why != "the profile does not say how" {
		t.Errorf("%+v", f)
	}
}

// How well sessions with each built-in profile can be taken over. A change here is a decision: the profile's file says why.
func TestBuiltInVerdicts(t *testing.T) {
	want := map[string]Verdict{
		"one-shot": Never, "echo": Full, "vosk": Full, "funasr": Visible, "funasr-realtime": Visible, "sherpa-onnx": Full, "sherpa-onnx-python": Never, "dashscope": Full, "vllm-realtime": Visible,
		"watson": Full, "kyutai": Visible, "whisperlive": Visible, "whisperlivekit": Visible, "realtimestt": Visible, "deepgram": Full, "assemblyai": Visible,
		"speechmatics": Visible, "soniox": Visible, "gladia": Never, "openai-realtime": Visible, "sglang-realtime": Visible,
		"sglang-omni": Visible, "vllm-omni": Never, "nvidia-realtime": Visible,
		"kyutai-tts": Never, "cartesia": Never, "elevenlabs-tts": Never, "azure-speech": Never,
		"openai-translations": Visible, "kaldi-gstreamer": Visible,
	}
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		f := p.Failover()
		if f.Verdict != want[name] || (f.Why == "") != (f.Verdict == Full) {
			t.Errorf("%s: %s, why: %q; want %s", name, f.Verdict, f.Why, want[name])
		}
		if f.Why == unknownWhy {
			t.Errorf("%s does not say why", name)
		}
		if f.Verdict == Never {
			continue
		}
		if len(f.answered) == 0 || len(f.audio.messages) == 0 {
			t.Errorf("%s: nothing is answered, or there is no audio", name)
		}
	}
	if len(want) != len(Names()) {
		t.Errorf("%d profiles; want %d", len(Names()), len(want))
	}
}

// Earlier versions read force, and none used it: a stored profile may have it.
func TestFailoverForce(t *testing.T) {
	for text, want := range map[string]bool{"force: {send: a, until: {text: b}}": true, "pace: 2": false} {
		p := mustParse(t, "profiles: {p: {from: vosk, failover: {"+text+"}}}")
		if p.Failover().Force != want || strings.Contains(string(p.YAML()), "force") {
			t.Errorf("%s: %t, printed as %s", text, p.Failover().Force, p.YAML())
		}
	}
}

// The conditions of one direction have 64 bits, and a path whose text is captured needs one of them.
func TestFailoverConditions(t *testing.T) {
	for id, most := range map[string]int{"": 64, ", id: i": 63} {
		for _, n := range []int{most, most + 1} {
			var partial strings.Builder
			for i := range n - 2 {
				fmt.Fprintf(&partial, "{json: {p: %d}}, ", i)
			}
			_, err := Parse("f.yaml", fmt.Appendf(nil, `profiles: {p: {failover: {why: it, partial: [%s],
				answered: {messages: {json: {a: 1}}, by: marker, marker: {text: m}, accepted: {json: {b: 1}}%s}}}}`, &partial, id))
			if n == most && err != nil || n > most && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d JSON conditions", n)) || !strings.HasSuffix(err.Error(), fmt.Sprintf("at most %d", most))) {
				t.Errorf("%d conditions%s: %v", n, id, err)
			}
		}
	}
}
