package failoverproof

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// protocol is what a client of the proof must know of a protocol, beside what the leak hunt knows. It is immutable.
type protocol struct {
	*hunt.Dialogue
	name      string
	client    string        // how the client differs from the leak hunt's, in YAML
	perSecond int           // bytes of a second of audio
	chunk     time.Duration // of audio: what a mark names
	// least and most are how much audio is in a message; a whole number of samples. Both 0: 40 to 160 ms.
	least, most time.Duration
	// commits says that a message follows where the speaker pauses, which ends the utterance; then, a message of audio ends there, and the session is over
	// when the client has a final result for each utterance.
	commits bool
	// replies is how many messages the client gets for a number of messages of audio and an end; nil if that depends on more.
	replies func(audio int) int
	// read returns the results in a message.
	read func(m hunt.Message) []result
	// overlap is how many chunks at the end of a final result the next one may have again.
	overlap int
	// again is how many more chunks may come again where the servers change, as the verdict visible says.
	again int
	// settings are those of the servers' profile that differ from the built-in one, in YAML; empty for none.
	settings string
	// undecoded is how much audio, in seconds, the recogniser may leave at the end of an utterance: it is less than it decodes at a time. The
	// next server does not get it.
	undecoded float64
	// merges tells that a result has everything since the beginning, in one text.
	merges bool
	// repeats tells that a message lists earlier results again.
	repeats bool
}

// commit ends an utterance, in protocols whose clients commit their audio.
var commit = []hunt.Message{{Opcode: frame.Text, Payload: []byte(`{"type":"input_audio_buffer.commit"}`)}}

// result is what a message says of audio.
type result struct {
	final  bool
	text   string
	start  float64 // in seconds; NaN if the message does not say it
	end    float64
	number int // of the result or its utterance; -1 if it has none
}

var unknown = math.NaN()

// protocols are those that can be proven, in the order of the simulated servers.
var protocols = []protocol{
	{
		name: sim.Echo, least: 100 * time.Millisecond, most: 100 * time.Millisecond,
		replies: func(audio int) int { return audio }, read: readEcho,
	},
	{
		name: sim.Vosk, client: `rate: 8000, start: '{"config" : {"sample_rate" : 8000, "words" : true}}'`,
		replies: func(audio int) int { return audio + 1 }, read: readVosk, undecoded: 0.02,
	},
	// The simulated server ends an utterance at once, but the profile counts on 800 ms of silence: those, a message and what comes meanwhile.
	{name: sim.FunASR, read: in(paths{final: "mode=2pass-offline", text: "text"}), overlap: 4, again: 9},
	{
		name: sim.FunASRRealtime, repeats: true,
		read: in(
			paths{each: "sentences", final: "text", text: "text", start: "start", end: "end", unit: 1e-3},
			paths{text: "partial", start: "partial_start_ms", unit: 1e-3},
		),
	},
	{name: sim.SherpaONNX, read: in(paths{final: "is_final=true", text: "text", start: "start_time", number: "segment"})},
	{
		name: sim.DashScope, client: `rate: 8000, start: '{"header":{"action":"run-task","task_id":"$token","streaming":"duplex"},"payload":` +
			`{"task_group":"audio","task":"asr","function":"recognition","model":"m","parameters":{"format":"pcm","sample_rate":8000},"input":{}}}'`,
		read: in(
			paths{of: dashScopeSentence, when: "words.0", text: "text", start: "words.0.begin_time", end: "words.-1.end_time", unit: 1e-3},
			paths{of: dashScopeSentence, when: "sentence_end=false", text: "text", start: "begin_time", number: "sentence_id", first: 1, unit: 1e-3},
			paths{
				of: dashScopeSentence, when: "sentence_end=true", final: "sentence_end=true", text: "text", start: "begin_time", end: "end_time",
				number: "sentence_id", first: 1, unit: 1e-3,
			},
		),
	},
	{name: sim.VLLMRealtime, read: in(paths{final: "type=transcription.done", text: "text"}), merges: true},
	{
		name:   sim.Watson,
		client: `rate: 8000, start: '{"action": "start", "content-type": "audio/l16; rate=8000", "interim_results": true, "timestamps": true}'`,
		read: in(paths{
			each: "results", final: "final=true", text: "alternatives.0.transcript", start: "alternatives.0.timestamps.0.1",
			end: "alternatives.0.timestamps.-1.2", number: "result_index",
		}),
	},
	{name: sim.Kyutai, chunk: 80 * time.Millisecond, least: 80 * time.Millisecond, most: 80 * time.Millisecond, read: readKyutai, again: 1},
	// The segments before the last one were the last one once.
	{name: sim.WhisperLive, read: in(paths{of: "segments.-1.", final: "completed=true", text: "text", start: "start", end: "end"})},
	{
		name: sim.WhisperLiveKit, repeats: true,
		read:     in(paths{each: "lines", final: "text", text: "text", start: "start", end: "end"}, paths{text: "buffer_transcription"}),
		settings: "failover: {audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}}",
	},
	{name: sim.RealtimeSTT, read: in(paths{final: "type=final", text: "text"}), merges: true},
	{
		name: sim.Deepgram,
		read: in(
			paths{of: "channel.alternatives.0.", when: "words.0", text: "transcript", start: "words.0.start", end: "words.-1.end"},
			paths{final: "is_final=true", text: "channel.alternatives.0.transcript", start: "start", length: "duration"},
		),
	},
	// A message whose rest would be too short for the server goes there whole.
	{name: sim.AssemblyAI, least: 60 * time.Millisecond, again: 3, read: in(paths{
		when: "type=Turn", final: "end_of_turn=true", text: "transcript", start: "words.0.start", end: "words.-1.end", unit: 1e-3, number: "turn_order",
	})},
	{name: sim.Speechmatics, read: in(
		paths{when: "results.0", text: "metadata.transcript", start: "results.0.start_time", end: "results.-1.end_time"},
		paths{final: "message=AddTranscript", text: "metadata.transcript", start: "metadata.start_time", end: "metadata.end_time"},
	)},
	{name: sim.Soniox, read: readSoniox},
	{name: sim.OpenAIRealtime, read: readOpenAI, commits: true},
	// The time of a translation is that of the 200 ms in which its phrase ended: the next server begins there, and hears the rest of the phrase again.
	{name: sim.OpenAITranslations, read: in(paths{final: "type=session.output_transcript.delta", text: "delta"}), again: 3},
	{name: sim.SGLangRealtime, read: readOpenAI, commits: true},
	{name: sim.SGLangOmni, read: in(paths{
		when: "type=transcription.segment", final: "is_final=true", text: "text", start: "audio_start_ms", end: "audio_end_ms", unit: 1e-3, number: "segment_id",
	})},
	{name: sim.NVIDIARealtime, read: in(
		paths{final: "type=conversation.item.input_audio_transcription.completed", text: "transcript", end: "audio_processed"},
		paths{text: "delta", end: "audio_processed"},
	)},
	{
		name:   sim.KaldiGStreamer,
		client: "rate: 8000, query: 'content-type=audio/x-raw,+layout=(string)interleaved,+rate=(int)8000,+format=(string)S16LE,+channels=(int)1'",
		read: in(
			paths{when: "result.final=false", text: "result.hypotheses.0.transcript", number: "segment"},
			paths{
				when: "result.final=true", final: "result.final=true", text: "result.hypotheses.0.transcript",
				start: "segment-start", end: "total-length", number: "segment",
			},
		),
	},
}

const dashScopeSentence = "payload.output.sentence."

// readOpenAI reads what OpenAI's API and those like it transcribe of what was committed.
var readOpenAI = in(paths{
	when: "type=conversation.item.input_audio_transcription.completed", final: "type=conversation.item.input_audio_transcription.completed", text: "transcript",
})

func nameOf(p *protocol) string { return p.name }

// Protocols returns the names of the protocols that can be proven.
func Protocols() []string { return kit.Names(protocols, nameOf) }

func protocolNamed(name string) (*protocol, error) {
	found, err := kit.Find("protocol", name, protocols, nameOf)
	if err != nil {
		return nil, err
	}
	p := *found
	if p.Dialogue, err = hunt.DialogueNamed(name, p.client); err != nil {
		return nil, err
	}
	encoding, rate := p.Audio()
	p.perSecond = rate * map[profile.Encoding]int{profile.S16LE: 2, profile.F32LE: 4}[encoding]
	p.chunk = cmp.Or(p.chunk, 100*time.Millisecond)
	if p.most == 0 {
		p.least, p.most = max(p.least, 40*time.Millisecond), 160*time.Millisecond
	}
	return &p, nil
}

// paths are where messages in JSON have a result: keys and indexes with dots between them; an index of -1 is the last.
type paths struct {
	of string // begins all others
	// each is a list whose items have a result each, numbered as they come, from the message's number on; empty for no list.
	each string
	// when is what messages with a result have, as path=value or as a path, and final what those with a final one have. Empty when: a text.
	when, final string
	text        string
	// start and end, or its length, are times, in unit seconds; number is that of the result or its utterance, from first.
	start, end, length, number string
	unit                       float64 // default 1
	first                      int
}

// in returns a function that returns the results in a message, by one or several paths.
func in(all ...paths) func(m hunt.Message) []result {
	return func(m hunt.Message) (results []result) {
		said, _ := speaker.Decode(m)
		for _, p := range all {
			number := -1
			if n, ok := at(said, p.of+p.number).(json.Number); ok {
				number, _ = strconv.Atoi(n.String())
				number -= p.first
			}
			if p.each == "" {
				results = p.read(results, said, number)
				continue
			}
			list, _ := at(said, p.each).([]any)
			for i, item := range list {
				results = p.read(results, item, max(0, number)+i)
			}
		}
		return results
	}
}

// read appends the result in a message, or in an item of its list.
func (p *paths) read(results []result, said any, number int) []result {
	text, ok := at(said, p.of+p.text).(string)
	if !ok || p.when != "" && !holds(said, p.of+p.when) {
		return results
	}
	seconds := func(path string) float64 { return clock(at(said, p.of+path)) * cmp.Or(p.unit, 1) }
	r := result{p.final != "" && holds(said, p.of+p.final), text, seconds(p.start), seconds(p.end), number}
	if p.length != "" {
		r.end = r.start + seconds(p.length)
	}
	return append(results, r)
}

// clock returns a time that a message has as a number, or as hours, minutes and seconds.
func clock(value any) (time float64) {
	if value == nil {
		return unknown
	}
	for part := range strings.SplitSeq(fmt.Sprint(value), ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return unknown
		}
		time = 60*time + n
	}
	return time
}

// at returns what a decoded message has at a path; nil for nothing.
func at(said any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch inside := said.(type) {
		case map[string]any:
			said = inside[key]
		case []any:
			i, err := strconv.Atoi(key)
			if i < 0 {
				i += len(inside)
			}
			if err != nil || i < 0 || i >= len(inside) {
				return nil
			}
			said = inside[i]
		default:
			return nil
		}
	}
	return said
}

// holds reports whether a decoded message has a value at a path, as in path=value, or any, as in path.
func holds(said any, path string) bool {
	path, want, valued := strings.Cut(path, "=")
	value := at(said, path)
	return valued && fmt.Sprint(value) == want || !valued && value != nil
}

// decode decodes a text message in JSON. Others leave what it decodes to as it is.
func decode[T any](m hunt.Message) (said T) {
	if m.Opcode == frame.Text {
		_ = json.Unmarshal(m.Payload, &said)
	}
	return said
}

// readEcho returns the marks in the audio as a result.
func readEcho(m hunt.Message) []result {
	var text []byte
	before := sim.Mark{}
	sim.Marks(m.Payload, func(m sim.Mark) {
		if m.Pause = false; m != before {
			before = m
			text = fmt.Appendf(text, " s%d:%d", m.Session, m.Seq)
		}
	})
	return []result{{true, string(text), unknown, unknown, -1}}
}

func readVosk(m hunt.Message) []result {
	said := decode[struct {
		Partial, Text *string
		Result        []struct {
			Word       string
			Start, End float64
		}
	}](m)
	switch {
	case said.Partial != nil:
		return []result{{false, *said.Partial, unknown, unknown, -1}}
	case said.Text == nil:
		return nil
	}
	r := result{true, *said.Text, unknown, unknown, -1}
	for _, w := range said.Result {
		sim.Identities([]byte(w.Word), func(uint64) {
			if !(r.start <= w.Start) {
				r.start = w.Start
			}
			if !(r.end >= w.End) {
				r.end = w.End
			}
		})
	}
	return []result{r}
}

func readKyutai(m hunt.Message) []result {
	said, _, err := sim.ReadKyutai(m.Payload)
	if err != nil || said.Type != "Word" {
		return nil
	}
	return []result{{true, said.Text, said.Start, said.Start + 0.08, -1}}
}

// readSoniox returns the tokens that are final and those that are not, as a result each.
func readSoniox(m hunt.Message) (results []result) {
	said := decode[struct {
		Tokens []struct {
			Text  string
			Start int  `json:"start_ms"`
			End   *int `json:"end_ms"` // nil for what is no word, such as <end>
			Final bool `json:"is_final"`
		}
	}](m)
	for i, token := range said.Tokens {
		if token.End == nil {
			continue
		}
		if i == 0 || token.Final != said.Tokens[i-1].Final {
			results = append(results, result{final: token.Final, start: float64(token.Start) / 1000, number: -1})
		}
		r := &results[len(results)-1]
		r.text, r.end = r.text+token.Text, float64(*token.End)/1000
	}
	return results
}
