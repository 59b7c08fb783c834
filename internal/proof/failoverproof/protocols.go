package failoverproof

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// protocol is what a client of the proof must know of a protocol, beside what the leak hunt knows. It is immutable.
type protocol struct {
	hunt.Dialogue
	perSecond int           // bytes of a second of audio
	chunk     time.Duration // of audio: what a mark names
	// least and most are how much audio is in a message; a whole number of samples. Both 0: 40 to 160 ms.
	least, most time.Duration
	// behindPause are the messages that follow where the speaker pauses; then, a message of audio ends there. nil for none.
	behindPause []hunt.Message
	// replies is how many messages the client gets for a number of messages of audio and an end; nil if that depends on more.
	replies func(audio int) int
	// read returns the results in a message.
	read func(m hunt.Message) []result
	// finals tells that the session is over when the client has that many final results; nil if Last tells it.
	finals func(pauses int) int
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

// result is what a message says of audio.
type result struct {
	final  bool
	text   string
	start  float64 // in seconds; NaN if the message does not say it
	end    float64
	number int // of the result or its utterance; -1 if it has none
}

var unknown = math.NaN()

const (
	s16 = 32000 // bytes of a second of 16 kHz in 16 bits
	f32 = 64000 // in floating-point numbers of 32 bits
)

// protocols are those that can be proven, in the order of the simulated servers.
var protocols = []protocol{
	{
		Dialogue: of(sim.Echo), perSecond: s16, least: 100 * time.Millisecond, most: 100 * time.Millisecond,
		replies: func(audio int) int { return audio }, read: readEcho,
	},
	{
		Dialogue: started(sim.Vosk, func(*hunt.Progress) []hunt.Message {
			return say(`{"config" : {"sample_rate" : 8000, "words" : true}}`)
		}),
		perSecond: s16 / 2, replies: func(audio int) int { return audio + 1 }, read: readVosk, undecoded: 0.02,
	},
	// The simulated server ends an utterance at once, but the profile counts on 800 ms of silence: those, a message and what comes meanwhile.
	{Dialogue: of(sim.FunASR), perSecond: s16, read: readFunASR, overlap: 4, again: 9},
	{Dialogue: of(sim.FunASRRealtime), perSecond: s16, read: readFunASRRealtime, repeats: true},
	{Dialogue: of(sim.SherpaONNX), perSecond: f32, read: readSherpa},
	{
		Dialogue: started(sim.DashScope, func(p *hunt.Progress) []hunt.Message {
			return say(`{"header":{"action":"run-task","task_id":"%s","streaming":"duplex"},"payload":{"task_group":"audio","task":"asr",`+
				`"function":"recognition","model":"paraformer-realtime-v2","parameters":{"format":"pcm","sample_rate":8000},"input":{}}}`, p.ID)
		}),
		perSecond: s16 / 2, read: readDashScope,
	},
	{Dialogue: of(sim.VLLMRealtime), perSecond: s16, read: readVLLM, merges: true},
	{
		Dialogue: started(sim.Watson, func(*hunt.Progress) []hunt.Message {
			return say(`{"action": "start", "content-type": "audio/l16; rate=8000", "interim_results": true, "timestamps": true}`)
		}),
		perSecond: s16 / 2, read: readWatson,
	},
	{
		Dialogue: of(sim.Kyutai), perSecond: 96000, chunk: 80 * time.Millisecond, least: 80 * time.Millisecond, most: 80 * time.Millisecond,
		read: readKyutai, again: 1,
	},
	{Dialogue: of(sim.WhisperLive), perSecond: f32, read: readWhisperLive},
	{
		Dialogue: of(sim.WhisperLiveKit), perSecond: s16, read: readWhisperLiveKit, repeats: true,
		settings: "failover: {audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}}",
	},
	{Dialogue: of(sim.RealtimeSTT), perSecond: s16, read: readRealtimeSTT, merges: true},
	{Dialogue: of(sim.Deepgram), perSecond: s16, read: readDeepgram},
	// A message whose rest would be too short for the server goes there whole.
	{Dialogue: of(sim.AssemblyAI), perSecond: s16, least: 60 * time.Millisecond, read: readAssemblyAI, again: 3},
	{Dialogue: of(sim.Speechmatics), perSecond: s16, read: readSpeechmatics},
	{Dialogue: of(sim.Soniox), perSecond: s16, read: readSoniox},
	{
		Dialogue: of(sim.OpenAIRealtime), perSecond: 48000, read: readOpenAI, behindPause: say(`{"type":"input_audio_buffer.commit"}`),
		finals: func(pauses int) int { return pauses + 1 },
	},
	// The time of a translation is that of the 200 ms in which its phrase ended: the next server begins there, and hears the rest of the phrase again.
	{Dialogue: of(sim.OpenAITranslations), perSecond: 48000, read: readTranslations, again: 3},
	{
		Dialogue: of(sim.SGLangRealtime), perSecond: s16, read: readOpenAI, behindPause: say(`{"type":"input_audio_buffer.commit"}`),
		finals: func(pauses int) int { return pauses + 1 },
	},
	{Dialogue: of(sim.SGLangOmni), perSecond: s16, read: readSGLangOmni},
	{Dialogue: of(sim.NVIDIARealtime), perSecond: s16, read: readNVIDIA},
	{
		Dialogue: requesting(sim.KaldiGStreamer,
			"/client/ws/speech?content-type=audio/x-raw,+layout=(string)interleaved,+rate=(int)8000,+format=(string)S16LE,+channels=(int)1"),
		perSecond: s16 / 2, read: readKaldi,
	},
}

// Protocols returns the names of the protocols that can be proven.
func Protocols() []string { return kit.Names(protocols, (*protocol).name) }

func (p *protocol) name() string { return p.Name }

func protocolNamed(name string) (*protocol, error) {
	found, err := kit.Find("protocol", name, protocols, (*protocol).name)
	if err != nil {
		return nil, err
	}
	p := *found
	if p.chunk == 0 {
		p.chunk = 100 * time.Millisecond
	}
	if p.most == 0 {
		p.least, p.most = max(p.least, 40*time.Millisecond), 160*time.Millisecond
	}
	return &p, nil
}

// of returns the leak hunt's dialogue in a protocol.
func of(name string) hunt.Dialogue {
	d, err := hunt.DialogueNamed(name)
	if err != nil {
		panic(err)
	}
	return *d
}

func started(name string, start func(p *hunt.Progress) []hunt.Message) hunt.Dialogue {
	d := of(name)
	d.Start = start
	return d
}

func requesting(name, path string) hunt.Dialogue {
	d := of(name)
	d.Path = func(*hunt.Progress) string { return path }
	return d
}

// say returns a text message.
func say(format string, args ...any) []hunt.Message {
	return []hunt.Message{{Opcode: frame.Text, Payload: fmt.Appendf(nil, format, args...)}}
}

// read decodes a text message in JSON. Others leave what it decodes to as it is.
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

func readFunASR(m hunt.Message) []result {
	said := decode[struct{ Mode, Text string }](m)
	return []result{{said.Mode == "2pass-offline", said.Text, unknown, unknown, -1}}
}

func readFunASRRealtime(m hunt.Message) (results []result) {
	said := decode[struct {
		Sentences []struct {
			Text       string
			Start, End float64
		}
		Partial string
		Start   float64 `json:"partial_start_ms"`
	}](m)
	for i, s := range said.Sentences {
		results = append(results, result{true, s.Text, s.Start / 1000, s.End / 1000, i})
	}
	if said.Partial != "" {
		results = append(results, result{false, said.Partial, said.Start / 1000, unknown, -1})
	}
	return results
}

func readSherpa(m hunt.Message) []result {
	said := decode[struct {
		Text    string
		Segment int
		Start   float64 `json:"start_time"`
		Final   bool    `json:"is_final"`
	}](m)
	return []result{{said.Final, said.Text, said.Start, unknown, said.Segment}}
}

func readDashScope(m hunt.Message) []result {
	type word struct {
		Begin int `json:"begin_time"`
		End   int `json:"end_time"`
	}
	said := decode[struct {
		Payload struct {
			Output struct {
				Sentence *struct {
					word
					ID    int `json:"sentence_id"`
					Text  string
					Ended bool `json:"sentence_end"`
					Words []word
				}
			}
		}
	}](m)
	s := said.Payload.Output.Sentence
	if s == nil {
		return nil
	}
	r := result{s.Ended, s.Text, float64(s.Begin) / 1000, unknown, s.ID - 1}
	if s.Ended {
		r.end = float64(s.End) / 1000
	}
	results := []result{r}
	if n := len(s.Words); n > 0 { // must fit, too
		results = append(results, result{false, s.Text, float64(s.Words[0].Begin) / 1000, float64(s.Words[n-1].End) / 1000, -1})
	}
	slices.Reverse(results)
	return results
}

func readRealtimeSTT(m hunt.Message) []result {
	said := decode[struct{ Type, Text string }](m)
	return []result{{said.Type == "final", said.Text, unknown, unknown, -1}}
}

func readVLLM(m hunt.Message) []result {
	said := decode[struct{ Type, Text string }](m)
	return []result{{said.Type == "transcription.done", said.Text, unknown, unknown, -1}}
}

func readWatson(m hunt.Message) (results []result) {
	said := decode[struct {
		Index   int `json:"result_index"`
		Results []struct {
			Final        bool
			Alternatives []struct {
				Transcript string
				Timestamps [][3]any
			}
		}
	}](m)
	for i, one := range said.Results {
		for _, a := range one.Alternatives {
			r := result{one.Final, a.Transcript, unknown, unknown, said.Index + i}
			if n := len(a.Timestamps); n > 0 {
				r.start, _ = a.Timestamps[0][1].(float64)
				r.end, _ = a.Timestamps[n-1][2].(float64)
			}
			results = append(results, r)
		}
	}
	return results
}

func readKyutai(m hunt.Message) []result {
	said, _, err := sim.ReadKyutai(m.Payload)
	if err != nil || said.Type != "Word" {
		return nil
	}
	return []result{{true, said.Text, said.Start, said.Start + 0.08, -1}}
}

// readWhisperLive returns the last segment: those before it were the last one once.
func readWhisperLive(m hunt.Message) []result {
	said := decode[struct {
		Segments []struct {
			Start, End, Text string
			Completed        bool
		}
	}](m)
	if len(said.Segments) == 0 {
		return nil
	}
	s := said.Segments[len(said.Segments)-1]
	start, _ := strconv.ParseFloat(s.Start, 64)
	end, _ := strconv.ParseFloat(s.End, 64)
	return []result{{s.Completed, s.Text, start, end, -1}}
}

func readWhisperLiveKit(m hunt.Message) (results []result) {
	said := decode[struct {
		Lines  []struct{ Text, Start, End string }
		Buffer string `json:"buffer_transcription"`
	}](m)
	for i, line := range said.Lines {
		results = append(results, result{true, line.Text, clock(line.Start), clock(line.End), i})
	}
	if said.Buffer != "" {
		results = append(results, result{false, said.Buffer, unknown, unknown, -1})
	}
	return results
}

// clock reads hours, minutes and seconds.
func clock(text string) (seconds float64) {
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return unknown
		}
		seconds = 60*seconds + n
	}
	return seconds
}

func readDeepgram(m hunt.Message) []result {
	said := decode[struct {
		Type            string
		Start, Duration float64
		Final           bool `json:"is_final"`
		Channel         struct {
			Alternatives []struct {
				Transcript string
				Words      []struct{ Start, End float64 }
			}
		}
	}](m)
	if said.Type != "Results" || len(said.Channel.Alternatives) == 0 {
		return nil
	}
	a := said.Channel.Alternatives[0]
	var results []result
	if n := len(a.Words); n > 0 {
		results = append(results, result{false, a.Transcript, a.Words[0].Start, a.Words[n-1].End, -1})
	}
	return append(results, result{said.Final, a.Transcript, said.Start, said.Start + said.Duration, -1})
}

func readAssemblyAI(m hunt.Message) []result {
	said := decode[struct {
		Type, Transcript string
		Turn             int  `json:"turn_order"`
		Ended            bool `json:"end_of_turn"`
		Words            []struct{ Start, End int }
	}](m)
	if said.Type != "Turn" {
		return nil
	}
	r := result{said.Ended, said.Transcript, unknown, unknown, said.Turn}
	if n := len(said.Words); n > 0 {
		r.start, r.end = float64(said.Words[0].Start)/1000, float64(said.Words[n-1].End)/1000
	}
	return []result{r}
}

func readSpeechmatics(m hunt.Message) []result {
	type times struct {
		Start float64 `json:"start_time"`
		End   float64 `json:"end_time"`
	}
	said := decode[struct {
		Message  string
		Metadata struct {
			times
			Transcript string
		}
		Results []times
	}](m)
	if said.Message != "AddTranscript" && said.Message != "AddPartialTranscript" {
		return nil
	}
	t := said.Metadata
	var results []result
	if n := len(said.Results); n > 0 {
		results = append(results, result{false, t.Transcript, said.Results[0].Start, said.Results[n-1].End, -1})
	}
	return append(results, result{said.Message == "AddTranscript", t.Transcript, t.Start, t.End, -1})
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

func readOpenAI(m hunt.Message) []result {
	said := decode[struct{ Type, Transcript string }](m)
	if !strings.HasSuffix(said.Type, "transcription.completed") {
		return nil
	}
	return []result{{true, said.Transcript, unknown, unknown, -1}}
}

func readTranslations(m hunt.Message) []result {
	said := decode[struct{ Type, Delta string }](m)
	return []result{{said.Type == "session.output_transcript.delta", said.Delta, unknown, unknown, -1}}
}

func readSGLangOmni(m hunt.Message) []result {
	said := decode[struct {
		Type    string
		Segment int  `json:"segment_id"`
		Start   int  `json:"audio_start_ms"`
		End     int  `json:"audio_end_ms"`
		Final   bool `json:"is_final"`
		Text    string
	}](m)
	if said.Type != "transcription.segment" {
		return nil
	}
	return []result{{said.Final, said.Text, float64(said.Start) / 1000, float64(said.End) / 1000, said.Segment}}
}

func readNVIDIA(m hunt.Message) []result {
	said := decode[struct {
		Type, Transcript, Delta string
		End                     float64 `json:"audio_processed"`
	}](m)
	if !strings.Contains(said.Type, "input_audio_transcription") {
		return nil
	}
	return []result{{strings.HasSuffix(said.Type, "completed"), said.Transcript + said.Delta, unknown, said.End, -1}}
}

func readKaldi(m hunt.Message) []result {
	said := decode[struct {
		Segment int
		Start   float64 `json:"segment-start"`
		Total   float64 `json:"total-length"`
		Result  *struct {
			Final      bool
			Hypotheses []struct{ Transcript string }
		}
	}](m)
	if said.Result == nil || len(said.Result.Hypotheses) == 0 {
		return nil
	}
	r := result{said.Result.Final, said.Result.Hypotheses[0].Transcript, unknown, unknown, said.Segment}
	if r.final {
		r.start, r.end = said.Start, said.Total
	}
	return []result{r}
}
