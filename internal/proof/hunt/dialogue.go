package hunt

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Message is a whole WebSocket message.
type Message = speaker.Message

// text returns a text message.
func text(format string, args ...any) Message {
	return Message{Opcode: frame.Text, Payload: fmt.Appendf(nil, format, args...)}
}

// Progress is how far a session has come.
type Progress struct {
	// ID is the session's identity as a word that the protocol can carry, such as "s17:0": its task's id, its name.
	ID string
	// Number is the session's identity as a number.
	Number uint64
	// Word is the identity for settings; empty when the session sets nothing.
	Word string
	// Sent and Received count messages, Audio those with audio.
	Sent, Received, Audio int
	// Ended says that the client has sent the end of the session.
	Ended bool
}

// Dialogue is the client's part in a protocol. What the client says is in the protocol's profile, under client: its messages bear the session's
// identity for the token. The fields add where else the identity belongs, and what the results are. It is immutable.
type Dialogue struct {
	// Name is that of the protocol.
	Name string
	// client is how the client differs from the profile's, in YAML. Where a server is ready by a message that only the first session on a connection
	// gets, it waits for another one, so that leaks show on connections that are used as they are.
	client string
	// query is added to the URL's; $id stands for the session's identity. withWord is added in sessions with settings, with the word behind it.
	query, withWord string
	// setting is how sessions with settings differ: the first text is replaced by the second in the first messages, or in those with audio if the
	// session begins with them. $word stands for the word. If the first text is empty, the second is a message of its own.
	setting [2]string
	// start, audio, end and last are for what a profile cannot express; nil for what it does.
	start func(p *Progress) []Message
	audio func(p *Progress, audio []byte) Message
	end   func(p *Progress) []Message
	last  func(p *Progress, m Message) bool

	// Blocks are the smallest and the largest number of blocks of a mark in a message of audio. Default: 1 to 24.
	Blocks [2]int
	// Final returns the part of a message that names the audio of a final result, each chunk once; nil if the message has none.
	// The field is nil if final results cannot be distinguished from others.
	Final func(m Message) []byte
	// Speech returns the audio in a message of a server that speaks, where it is not all of a binary message; nil for none.
	Speech func(m Message) []byte
	// Overlap is how many chunks of a final result may also be part of the next one.
	Overlap int
	// Step is how many blocks of a mark the recogniser takes at a time; 0 for any number. Other chunks may be part of two results.
	Step int
	// Answers returns how many messages a session must have received by its last one; nil if that depends on more than the sent
	// messages.
	Answers func(p *Progress) int

	profile *profile.Profile
	script  *profile.Script
	speaker *speaker.Recording
}

// Dialogues returns the names of the protocols that a hunt can use.
func Dialogues() []string { return kit.Names(dialogues, (*Dialogue).name) }

func (d *Dialogue) name() string { return d.Name }

// DialogueNamed returns the dialogue of a protocol. What its client says otherwise is in YAML, as a profile's client; empty for nothing.
func DialogueNamed(name, otherwise string) (*Dialogue, error) {
	found, err := kit.Find("protocol", name, dialogues, (*Dialogue).name)
	if err != nil {
		return nil, err
	}
	d := *found
	d.client = strings.Trim(d.client+", "+otherwise, ", ")
	return &d, d.prepare()
}

// prepare reads the profile.
func (d *Dialogue) prepare() error {
	all, err := profile.Parse("hunt", fmt.Appendf(nil, "profiles: {hunted: {from: %s, client: {%s}}}", d.Name, d.client))
	if err != nil {
		return err
	}
	model := ""
	if d.profile, d.script = all[0], all[0].Script(); d.script.NamesModel() {
		model = "simulated"
	}
	d.speaker, err = speaker.Prepare(d.profile, model)
	return err
}

// Subprotocol is the WebSocket subprotocol to ask for; empty for none.
func (d *Dialogue) Subprotocol() string { return d.profile.Subprotocol }

// Audio returns the encoding and the rate of the audio.
func (d *Dialogue) Audio() (profile.Encoding, int) { return d.script.Encoding, d.script.Rate }

// Path returns the path and query of the URL.
func (d *Dialogue) Path(p *Progress) string {
	query := []string{}
	for _, part := range []string{d.speaker.Query(), strings.ReplaceAll(d.query, "$id", url.QueryEscape(p.ID))} {
		if part != "" {
			query = append(query, part)
		}
	}
	if p.Word != "" && d.withWord != "" {
		query = append(query, d.withWord+url.QueryEscape(p.Word))
	}
	if len(query) == 0 {
		return "/"
	}
	return "/?" + strings.Join(query, "&")
}

// Start returns the messages that begin a session.
func (d *Dialogue) Start(p *Progress) []Message {
	if d.start != nil {
		return d.start(p)
	}
	said := d.say(p, d.script.Start)
	if p.Word != "" && d.setting != [2]string{} && d.setting[0] == "" {
		said = append(said, text("%s", d.setting[1]))
	}
	for i := range said {
		said[i] = d.set(p, said[i])
	}
	return said
}

// set puts settings into a message.
func (d *Dialogue) set(p *Progress, m Message) Message {
	if p.Word != "" && d.setting[1] != "" {
		if d.setting[0] != "" {
			m.Payload = bytes.Replace(m.Payload, []byte(d.setting[0]), []byte(d.setting[1]), 1)
		}
		m.Payload = bytes.ReplaceAll(m.Payload, []byte("$word"), []byte(p.Word))
	}
	return m
}

// say returns messages of the profile.
func (d *Dialogue) say(p *Progress, said []profile.Message) []Message {
	all := d.speaker.Fill(said, p.Number, p.Audio)
	for i := range all {
		all[i] = named(p, all[i])
	}
	return all
}

// named puts the session's identity where the profile has its token.
func named(p *Progress, m Message) Message {
	m.Payload = bytes.ReplaceAll(m.Payload, fmt.Appendf(nil, "%016x", p.Number), []byte(p.ID))
	return m
}

// AwaitsReady reports whether audio has to wait for a message, and IsReady whether this is it.
func (d *Dialogue) AwaitsReady() bool { return d.script.AwaitsReady() }

// IsReady reports whether audio has to wait for this message.
func (d *Dialogue) IsReady(m Message) bool { return d.script.IsReady(m.Opcode, m.Payload, 0) }

// Carry returns the message that carries audio, or the word of the chunk where the server speaks. It may be the audio itself.
func (d *Dialogue) Carry(p *Progress, audio []byte) Message {
	switch {
	case d.audio != nil:
		return d.audio(p, audio)
	case d.script.TakesText():
		word := sim.ChunkWord(p.Number, uint16(p.Audio)) + " "
		m := named(p, d.speaker.Envelop(p.Audio-1, []byte(word), p.Number))
		if len(d.script.Start) == 0 {
			m = d.set(p, m)
		}
		return m
	}
	return d.speaker.Envelop(p.Audio-1, audio, p.Number)
}

// Follow returns the messages that follow the first message of audio.
func (d *Dialogue) Follow(p *Progress) []Message { return d.say(p, d.script.Follow) }

// End returns the messages that end the session.
func (d *Dialogue) End(p *Progress) []Message {
	if d.end != nil {
		return d.end(p)
	}
	return d.say(p, d.script.End)
}

// HasLast reports whether a session has a last message. Otherwise the server's close is its end.
func (d *Dialogue) HasLast() bool { return d.script.HasLast() || d.Lockstep() }

// IsLast reports whether a message is the last of a session.
func (d *Dialogue) IsLast(p *Progress, m Message) bool {
	switch {
	case d.last != nil:
		return p.Ended && d.last(p, m)
	case d.Lockstep():
		return p.Received >= p.Sent
	}
	return p.Ended && d.script.IsLast(m.Opcode, m.Payload, 0)
}

// Lockstep says that the server answers each message with one, so that the last answer may have come before the client sent the end.
func (d *Dialogue) Lockstep() bool {
	return d.profile.Declared == profile.Lockstep && !d.profile.EndCloses
}

// Closes says that the server closes the connection after the last message. Otherwise the client does.
func (d *Dialogue) Closes() bool { return d.profile.EndCloses }

// IsBusy recognises the message by which a full server refuses the client.
func (d *Dialogue) IsBusy(m Message) bool { return d.profile.SaysFull(m.Opcode, m.Payload) }

// from returns a function that returns a message from the first text on, if the message has the second one.
func from(text, mark string) func(m Message) []byte {
	return func(m Message) []byte {
		i := bytes.Index(m.Payload, []byte(text))
		if i < 0 || !bytes.Contains(m.Payload, []byte(mark)) {
			return nil
		}
		return m.Payload[i:]
	}
}

// until returns a function that cuts off the result of f at a text.
func until(text string, f func(m Message) []byte) func(m Message) []byte {
	return func(m Message) []byte {
		final, _, _ := bytes.Cut(f(m), []byte(text))
		return final
	}
}

// behind is a setting that stands behind a text of the first message.
func behind(text, added string) [2]string { return [2]string{text, text + ", " + added} }

// dialogues are the protocols, in the order of the simulated servers, whose comments describe the messages.
var dialogues = []Dialogue{
	{
		Name:    sim.Echo,
		Final:   func(m Message) []byte { return m.Payload },
		Answers: func(p *Progress) int { return p.Sent },
	},
	{
		Name: sim.Vosk, setting: behind(`"sample_rate" : 16000`, `"phrase_list" : ["$word"]`),
		Final: from(`"text" : `, `"text" : `), Step: 20,
		Answers: func(p *Progress) int { return p.Audio + 1 },
	},
	{
		Name: sim.FunASR, client: `start: '{"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 2, "is_speaking": true}'`,
		setting: behind(`"mode": "2pass"`, `"wav_name": "$word", "hotwords": "$word"`),
		// The result includes a little audio from before the speaker began.
		Final: from(`"text": `, `"2pass-offline"`), Overlap: 1,
	},
	{Name: sim.FunASRRealtime, setting: [2]string{"", "HOTWORDS:$word"}},
	{Name: sim.SherpaONNX},
	{Name: sim.SherpaPython},
	{Name: sim.DashScope, setting: behind(`"sample_rate": 16000`, `"vocabulary_id": "$word"`)},
	{Name: sim.VLLMRealtime},
	{Name: sim.Watson, setting: behind(`"interim_results": true`, `"keywords": ["$word"]`)},
	{
		Name: sim.Kyutai, client: "ready: {msgpack: {type: Ready}}", Blocks: [2]int{100, 500}, end: endKyutai,
		last: func(p *Progress, m Message) bool { return markerOf(m) == int64(p.Number) },
	},
	{Name: sim.WhisperLive, setting: behind(`"use_vad": true`, `"initial_prompt": "$word"`), Final: newestCompleted},
	{Name: sim.WhisperLiveKit},
	{Name: sim.RealtimeSTT, client: `ready: {json: {type: hello}}`, Final: until(`,"status"`, from(`"text":`, `"type":"final"`))},
	{
		Name: sim.Deepgram, withWord: "keyterm=",
		Final:   until(`"words":`, from(`"transcript":`, `"is_final":true`)),
		Answers: func(p *Progress) int { return p.Audio + 2 },
	},
	{Name: sim.AssemblyAI, withWord: "keyterms_prompt=", Blocks: [2]int{100, 200}},
	{Name: sim.Speechmatics, setting: behind(`"enable_partials": true`, `"additional_vocab": [{"content": "$word"}]`)},
	{Name: sim.Soniox, setting: behind(`"num_channels": 1`, `"context": {"terms": ["$word"]}`), Final: finalTokens},
	{Name: sim.Gladia, query: "token=$id", withWord: "vocabulary=", Final: from(`"text":`, `"is_final":true`)},
	{Name: sim.OpenAIRealtime, setting: behind(`"type": "transcription"`, `"input_audio_transcription": {"prompt": "$word"}`)},
	{Name: sim.SGLangRealtime, client: `ready: {json: {type: session.created}}`, setting: behind(`"rate": 16000}`, `"transcription": {"language": "$word"}`)},
	{
		Name: sim.SGLangOmni, setting: [2]string{"", `{"type":"session.update","session":{"language":"$word"}}`},
		Final: from(`"text": `, `"is_final": true`),
	},
	{Name: sim.OpenAITranslations, Final: from(`"delta":`, `output_transcript`)},
	{Name: sim.VLLMOmni, client: `ready: [{json: {type: session.created}}, {json: {type: session.updated}}]`, setting: behind(`"model": "simulated"`, `"instructions": "$word"`)},
	{
		Name: sim.NVIDIARealtime, setting: behind(`"sample_rate": 16000`, `"language": "$word"`),
		Final: until(`"audio_processed"`, from(`"transcript":`, `transcription.completed"`)),
	},
	{Name: sim.KaldiGStreamer, query: "content-id=$id"},
	{
		Name: sim.KyutaiTTS, withWord: "voice=",
		Final: kyutaiSpeech, Speech: kyutaiSpeech,
		Answers: func(p *Progress) int { return 1 + 2*p.Audio },
	},
	{
		Name: sim.Cartesia, setting: behind(`"add_timestamps": true`, `"pronunciation_dict_id": "$word"`),
		Final: from(`"words":`, `"type":"timestamps"`), Speech: inField("data"),
		Answers: func(p *Progress) int { return 1 + 2*p.Audio },
	},
	{
		Name: sim.ElevenLabsTTS, setting: behind(`"text": " "`, `"pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "$word"}]`),
		// The server speaks each word immediately.
		client: `audio: '{"text": "$text", "context_id": "$token", "flush": true}', end: '{"context_id": "$token", "close_context": true}'`,
		Final:  characters, Speech: inField("audio"),
		Answers: func(p *Progress) int { return 1 + p.Audio },
	},
	{
		Name: sim.AzureSpeech, client: `ready: {contains: "Path:turn.start"}, last: {contains: "Path:turn.end"}`,
		start: startAzure, audio: azureAudio,
		end:   func(p *Progress) []Message { return []Message{azureAudio(p, nil)} },
		Final: from(`"DisplayText":`, "Path:speech.phrase"),
	},
}

// startAzure begins a turn of Azure's.
func startAzure(p *Progress) []Message {
	grammars := ""
	if p.Word != "" {
		grammars = `"dgi":{"Groups":[{"Type":"Generic","Items":[{"Text":"` + p.Word + `"}]}]}`
	}
	return []Message{text("Path:speech.config\r\n\r\n{}"), text("%s{%s}", azureHead(p, "speech.context"), grammars)}
}

// azureHead begins a message of Azure's of a turn.
func azureHead(p *Progress, path string) string {
	return fmt.Sprintf("Path:%s\r\nX-RequestId:%032x\r\n\r\n", path, p.Number)
}

// azureAudio puts audio behind a header, which its length precedes.
func azureAudio(p *Progress, audio []byte) Message {
	head := azureHead(p, "audio")
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(len(head))), head...)
	return Message{Opcode: frame.Binary, Payload: append(payload, audio...)}
}

// inField returns a function that returns the audio in base64 in a field of JSON.
func inField(name string) func(m Message) []byte {
	return func(m Message) []byte {
		_, audio, _ := bytes.Cut(m.Payload, []byte(`"`+name+`":"`))
		audio, _, _ = bytes.Cut(audio, []byte(`"`))
		audio, _ = base64.StdEncoding.AppendDecode(nil, audio)
		return audio
	}
}

// characters returns what is spoken in a message of ElevenLabs', whose times are of characters.
func characters(m Message) []byte {
	var said struct {
		Alignment struct {
			Chars []string `json:"chars"`
		} `json:"alignment"`
	}
	if json.Unmarshal(m.Payload, &said) != nil || len(said.Alignment.Chars) == 0 {
		return nil
	}
	return []byte(strings.Join(said.Alignment.Chars, ""))
}

// kyutaiSpeech returns the audio in a message of Kyutai's server.
func kyutaiSpeech(m Message) []byte {
	said, _, _ := sim.ReadKyutai(m.Payload)
	return said.PCM
}

// newestCompleted returns the last segment of WhisperLive's list if it is completed. Those before it were the last one once.
func newestCompleted(m Message) []byte {
	i := bytes.LastIndex(m.Payload, []byte(`{"start"`))
	if i < 0 || !bytes.Contains(m.Payload[i:], []byte(`"completed": true`)) {
		return nil
	}
	return m.Payload[i:]
}

// finalTokens returns the tokens that no later message revises, which come first in a message of Soniox'.
func finalTokens(m Message) []byte {
	i := bytes.LastIndex(m.Payload, []byte(`"is_final":true`))
	return m.Payload[:max(i, 0)]
}

// Kyutai's server takes 1,920 samples of 32 bits at a time, and sends words kyutaiDelay steps later.
const (
	kyutaiStep  = 1920 * 4
	kyutaiDelay = 6
)

// endKyutai fills the last step with silence, sends a marker that is the session's own, and then silence until it must have come back.
func endKyutai(p *Progress) []Message {
	silence := Message{Opcode: frame.Binary, Payload: sim.AppendKyutaiAudio(nil, make([]byte, kyutaiStep))}
	marker := msgp.AppendInt64(msgp.AppendString(sim.AppendKyutai(nil, "Marker", 1), "id"), int64(p.Number))
	said := []Message{silence, {Opcode: frame.Binary, Payload: marker}}
	for range kyutaiDelay {
		said = append(said, silence)
	}
	return said
}

// markerOf returns the id of a marker that came back; -1 for another message.
func markerOf(m Message) int64 {
	said, _, err := sim.ReadKyutai(m.Payload)
	if err != nil || said.Type != "Marker" {
		return -1
	}
	return said.ID
}
