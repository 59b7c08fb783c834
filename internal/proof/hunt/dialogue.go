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

// Dialogue is the client's part in a protocol. It is immutable.
type Dialogue struct {
	// Name is that of the protocol.
	Name string
	// Path returns the path and query of the URL; nil for "/".
	Path func(p *Progress) string
	// Subprotocol is the WebSocket subprotocol to ask for; empty for none.
	Subprotocol string
	// Start returns the messages that begin a session; nil for none.
	Start func(p *Progress) []Message
	// Ready recognises the message that audio has to wait for; nil when it need not wait.
	Ready func(m Message) bool
	// Audio puts audio into a message; nil for a binary message with nothing else. It may return a slice of scratch. Where the server speaks, it
	// returns a text instead, which is the word of the chunk.
	Audio func(p *Progress, scratch, audio []byte) []byte
	// AudioKind is the message's kind. Default: Binary.
	AudioKind frame.Opcode
	// Behind returns the messages that follow the first message of audio; nil for none.
	Behind func(p *Progress) []Message
	// Blocks are the smallest and the largest number of blocks of a mark in a message of audio. Default: 1 to 24.
	Blocks [2]int
	// End returns the messages that end the session; nil for none.
	End func(p *Progress) []Message
	// Last recognises the last message of a session; nil when the server's close is the end.
	Last func(p *Progress, m Message) bool
	// Lockstep says that the server answers each message with one, so that the last answer may have come before the client sent
	// the end.
	Lockstep bool
	// Closes says that the server closes the connection after the last message. Otherwise the client does.
	Closes bool
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
	// Busy recognises the message by which a full server refuses the client; nil for none.
	Busy func(m Message) bool
}

// Dialogues returns the names of the protocols that a hunt can use.
func Dialogues() []string { return kit.Names(dialogues, (*Dialogue).name) }

func (d *Dialogue) name() string { return d.Name }

// DialogueNamed returns the dialogue of a protocol.
func DialogueNamed(name string) (*Dialogue, error) {
	return kit.Find("protocol", name, dialogues, (*Dialogue).name)
}

// Carry returns the message that carries audio. Its payload is the audio, or takes the place of scratch.
func (d *Dialogue) Carry(p *Progress, scratch, audio []byte) Message {
	m := Message{Opcode: frame.Binary, Payload: audio}
	if d.AudioKind != frame.Continuation {
		m.Opcode = d.AudioKind
	}
	if d.Audio != nil {
		m.Payload = d.Audio(p, scratch, audio)
	}
	return m
}

// has returns a function that finds a text in a message.
func has(text string) func(m Message) bool {
	return func(m Message) bool { return bytes.Contains(m.Payload, []byte(text)) }
}

// ends returns a function that finds a text in a message that came after the session's end.
func ends(text string) func(p *Progress, m Message) bool {
	return func(p *Progress, m Message) bool { return p.Ended && bytes.Contains(m.Payload, []byte(text)) }
}

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

// says returns a function that returns one text message.
func says(message string) func(p *Progress) []Message {
	said := []Message{{Opcode: frame.Text, Payload: []byte(message)}}
	return func(*Progress) []Message { return said }
}

// dialogues are the protocols, in the order of the simulated servers, whose comments describe the messages.
var dialogues = []Dialogue{
	{
		Name: sim.Echo,
		Last: func(p *Progress, _ Message) bool { return p.Received >= p.Sent }, Lockstep: true,
		Final:   func(m Message) []byte { return m.Payload },
		Answers: func(p *Progress) int { return p.Sent },
	},
	{
		Name: sim.Vosk,
		Start: func(p *Progress) []Message {
			if p.Word == "" {
				return nil
			}
			return []Message{text(`{"config" : {"sample_rate" : 16000, "phrase_list" : ["%s"]}}`, p.Word)}
		},
		End: says(`{"eof" : 1}`), Closes: true,
		Final: from(`"text" : `, `"text" : `), Step: 20,
		Answers: func(p *Progress) int { return p.Audio + 1 },
	},
	{
		Name: sim.FunASR, Subprotocol: "binary",
		Start: func(p *Progress) []Message {
			hotwords := ""
			if p.Word != "" {
				hotwords = `, "wav_name": "` + p.ID + `", "hotwords": "` + p.Word + `"`
			}
			return []Message{text(`{"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 2, "is_speaking": true%s}`, hotwords)}
		},
		End:  says(`{"is_speaking": false, "is_end": true}`),
		Last: ends(`"is_end": true`),
		// The result includes a little audio from before the speaker began.
		Final: from(`"text": `, `"2pass-offline"`), Overlap: 1,
	},
	{
		Name: sim.FunASRRealtime,
		Start: func(p *Progress) []Message {
			start := []Message{text("START")}
			if p.Word != "" {
				start = append(start, text("HOTWORDS:%s", p.Word))
			}
			return start
		},
		Ready: has(`"started"`),
		End:   says("STOP"),
		Last:  ends(`"stopped"`),
	},
	{
		Name: sim.SherpaONNX,
		End:  says("Done"),
		Last: func(_ *Progress, m Message) bool { return string(m.Payload) == "Done!" },
	},
	{
		Name: sim.SherpaPython, End: says("Done"), Closes: true,
	},
	{
		Name: sim.DashScope,
		Start: func(p *Progress) []Message {
			vocabulary := ""
			if p.Word != "" {
				vocabulary = `"vocabulary_id":"` + p.Word + `"`
			}
			return []Message{text(`{"header":{"action":"run-task","task_id":"%s","streaming":"duplex"},"payload":{"task_group":"audio",`+
				`"task":"asr","function":"recognition","model":"paraformer-realtime-v2","parameters":{%s},"input":{}}}`, p.ID, vocabulary)}
		},
		Ready: has(`"event":"task-started"`),
		End: func(p *Progress) []Message {
			return []Message{text(`{"header":{"action":"finish-task","task_id":"%s","streaming":"duplex"},"payload":{"input":{}}}`, p.ID)}
		},
		Last: ends(`"event":"task-finished"`),
	},
	{
		Name:  sim.VLLMRealtime,
		Start: says(`{"type":"session.update","model":"simulated"}`),
		Ready: has(`"type":"session.created"`),
		Audio: inBase64, AudioKind: frame.Text,
		Behind: says(`{"type":"input_audio_buffer.commit"}`),
		End:    says(`{"type":"input_audio_buffer.commit","final":true}`),
		Last:   ends(`"type":"transcription.done"`),
	},
	{
		Name: sim.Watson,
		Start: func(p *Progress) []Message {
			keywords := ""
			if p.Word != "" {
				keywords = `, "keywords": ["` + p.Word + `"]`
			}
			return []Message{text(`{"action": "start", "content-type": "audio/l16;rate=16000", "interim_results": true%s}`, keywords)}
		},
		Ready: has(`"state": "listening"`),
		End:   says(`{"action": "stop"}`),
		Last:  ends(`"state": "listening"`),
	},
	{
		Name:  sim.Kyutai,
		Path:  func(*Progress) string { return "/api/asr-streaming" },
		Ready: has("\xa5Ready"),
		Audio: inMessagePack, Blocks: [2]int{100, 500},
		End: endKyutai,
		Last: func(p *Progress, m Message) bool {
			return p.Ended && markerOf(m) == int64(p.Number)
		},
		Busy: has("no free channels"),
	},
	{
		Name: sim.WhisperLive,
		Start: func(p *Progress) []Message {
			prompt := ""
			if p.Word != "" {
				prompt = `, "initial_prompt": "` + p.Word + `"`
			}
			return []Message{text(`{"uid": "%s", "language": "en", "task": "transcribe", "model": "small", "use_vad": true%s}`, p.ID, prompt)}
		},
		Ready: has(`"SERVER_READY"`),
		End: func(*Progress) []Message {
			return []Message{{Opcode: frame.Binary, Payload: []byte("END_OF_AUDIO")}}
		},
		Closes: true, Busy: has(`"status": "WAIT"`),
		Final: newestCompleted,
	},
	{
		Name:  sim.WhisperLiveKit,
		Path:  func(*Progress) string { return "/asr" },
		Ready: has(`"type":"config"`),
		End:   func(*Progress) []Message { return []Message{{Opcode: frame.Binary}} },
		Last:  ends(`"type":"ready_to_stop"`),
	},
	{
		Name:  sim.RealtimeSTT,
		Path:  func(*Progress) string { return "/api/v1/ws/transcribe" },
		Start: says(`{"type":"start","language":"en"}`),
		Ready: has(`"type":"hello"`),
		Audio: func(p *Progress, scratch, audio []byte) []byte {
			return sim.AppendRealtimeSTT(scratch, p.Audio-1, audio)
		},
		End: says(`{"type":"finalize"}`), Last: ends(`"type":"completion"`), Busy: has(`"session_limit"`),
		Final: until(`,"status"`, from(`"text":`, `"type":"final"`)),
	},
	{
		Name: sim.Deepgram,
		Path: func(p *Progress) string {
			return withWord("/v1/listen?encoding=linear16&sample_rate=16000", "&keyterm=", p)
		},
		End: says(`{"type":"CloseStream"}`), Last: ends(`"type":"Metadata"`), Closes: true,
		Final:   until(`"words":`, from(`"transcript":`, `"is_final":true`)),
		Answers: func(p *Progress) int { return p.Audio + 2 },
	},
	{
		Name:   sim.AssemblyAI,
		Path:   func(p *Progress) string { return withWord("/v3/ws?sample_rate=16000", "&keyterms_prompt=", p) },
		Ready:  has(`"type":"Begin"`),
		Blocks: [2]int{100, 200},
		End:    says(`{"type":"Terminate"}`), Last: ends(`"type":"Termination"`), Closes: true,
	},
	{
		Name: sim.Speechmatics,
		Path: func(*Progress) string { return "/v2" },
		Start: func(p *Progress) []Message {
			vocab := ""
			if p.Word != "" {
				vocab = `, "additional_vocab": [{"content": "` + p.Word + `"}]`
			}
			return []Message{text(`{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16000},`+
				` "transcription_config": {"language": "en", "enable_partials": true%s}}`, vocab)}
		},
		Ready: has(`"RecognitionStarted"`),
		End: func(p *Progress) []Message {
			return []Message{text(`{"message": "EndOfStream", "last_seq_no": %d}`, p.Audio)}
		},
		Last: ends(`"EndOfTranscript"`), Closes: true, Busy: has(`"quota_exceeded"`),
	},
	{
		Name: sim.Soniox,
		Path: func(*Progress) string { return "/transcribe-websocket" },
		Start: func(p *Progress) []Message {
			context := ""
			if p.Word != "" {
				context = `,"context":{"terms":["` + p.Word + `"]}`
			}
			return []Message{text(`{"model":"stt-rt-v5","audio_format":"pcm_s16le","sample_rate":16000,"num_channels":1%s}`, context)}
		},
		End:  func(*Progress) []Message { return []Message{{Opcode: frame.Binary}} },
		Last: ends(`"finished":true`), Closes: true, Busy: has(`"error_code":429`),
		Final: finalTokens,
	},
	{
		Name: sim.Gladia,
		Path: func(p *Progress) string { return withWord("/v2/live?token="+url.QueryEscape(p.ID), "&vocabulary=", p) },
		End:  says(`{"type":"stop_recording"}`), Last: ends(`"type":"post_final_transcript"`), Closes: true,
		Final: from(`"text":`, `"is_final":true`),
	},
	{
		Name: sim.OpenAIRealtime,
		Path: func(*Progress) string { return "/v1/realtime?intent=transcription" },
		Start: func(p *Progress) []Message {
			if p.Word == "" {
				return nil
			}
			return []Message{text(`{"type":"session.update","session":{"input_audio_transcription":{"prompt":"%s"}}}`, p.Word)}
		},
		Ready: has(`"type":"session.created"`),
		Audio: inBase64, AudioKind: frame.Text,
		End:  says(`{"type":"input_audio_buffer.commit"}`),
		Last: ends(`transcription.completed"`),
	},
	{
		Name: sim.SGLangRealtime,
		Path: func(*Progress) string { return "/v1/realtime" },
		Start: func(p *Progress) []Message {
			language := "null"
			if p.Word != "" {
				language = `"` + p.Word + `"`
			}
			return []Message{text(`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":16000},`+
				`"transcription":{"language":%s}}}}}`, language)}
		},
		Ready: has(`"type":"session.created"`),
		Audio: inBase64, AudioKind: frame.Text,
		End:  says(`{"type":"input_audio_buffer.commit"}`),
		Last: ends(`transcription.completed"`),
	},
	{
		Name: sim.SGLangOmni,
		Path: func(*Progress) string { return "/v1/realtime?intent=transcription" },
		Start: func(p *Progress) []Message {
			if p.Word == "" {
				return nil
			}
			return []Message{text(`{"type":"session.update","session":{"language":"%s"}}`, p.Word)}
		},
		Ready: has(`"type": "session.created"`),
		Audio: inBase64, AudioKind: frame.Text,
		End: says(`{"type":"transcription.done"}`), Last: ends(`"transcription.completed"`),
		Final: from(`"text": `, `"is_final": true`),
	},
	{
		Name:  sim.OpenAITranslations,
		Path:  func(*Progress) string { return "/v1/realtime/translations?model=simulated" },
		Ready: has(`"type":"session.created"`),
		Audio: func(p *Progress, scratch, audio []byte) []byte {
			return append([]byte(`{"type":"session.`), inBase64(p, scratch, audio)[len(`{"type":"`):]...)
		},
		AudioKind: frame.Text,
		End:       says(`{"type":"session.close"}`), Last: ends(`"type":"session.closed"`), Closes: true,
		Final: from(`"delta":`, `output_transcript`),
	},
	{
		Name: sim.VLLMOmni,
		Path: func(*Progress) string { return "/v1/realtime?duplex=1" },
		Start: func(p *Progress) []Message {
			return []Message{text(`{"type":"session.update","session":{"model":"simulated","instructions":"%s"}}`, p.Word)}
		},
		Ready: has(`"type":"session.`), // created, or updated
		Audio: inBase64, AudioKind: frame.Text,
		End: says(`{"type":"input_audio_buffer.commit"}`), Last: ends(`"type":"response.done"`), Busy: has(`"resource_exhausted"`),
	},
	{
		Name: sim.NVIDIARealtime,
		Path: func(*Progress) string { return "/v1/realtime" },
		Start: func(p *Progress) []Message {
			if p.Word == "" {
				return nil
			}
			return []Message{text(`{"type":"session.update","session":{"language":"%s"}}`, p.Word)}
		},
		Ready: has(`"type":"session.created"`),
		End:   says(`{"type":"input_audio_buffer.commit"}`), Last: ends(`"type":"input_audio_buffer.committed"`),
		Final: until(`"audio_processed"`, from(`"transcript":`, `transcription.completed"`)),
	},
	{
		Name: sim.KaldiGStreamer,
		Path: func(p *Progress) string {
			return "/client/ws/speech?content-type=audio/x-raw&content-id=" + url.QueryEscape(p.ID)
		},
		End: says("EOS"), Closes: true, Busy: has(`"status": 9`),
	},
	{
		Name:  sim.KyutaiTTS,
		Path:  func(p *Progress) string { return withWord("/api/tts_streaming?format=PcmMessagePack", "&voice=", p) },
		Ready: has("\xa5Ready"),
		Audio: textOf(`%[2]s `), AudioKind: frame.Text,
		End:    func(*Progress) []Message { return []Message{{Opcode: frame.Binary, Payload: []byte{0}}} },
		Closes: true, Busy: has("no free channels"),
		Final: kyutaiSpeech, Speech: kyutaiSpeech,
		Answers: func(p *Progress) int { return 1 + 2*p.Audio },
	},
	{
		Name:  sim.Cartesia,
		Path:  func(*Progress) string { return "/tts/websocket" },
		Audio: textOf(cartesiaRequest), AudioKind: frame.Text,
		End: func(p *Progress) []Message {
			return []Message{text(`{"model_id":"sonic-3","transcript":"","context_id":"%s","continue":false}`, p.ID)}
		},
		Last: ends(`"type":"done"`), Busy: has(`"status_code":429`),
		Final: from(`"words":`, `"type":"timestamps"`), Speech: inField("data"),
		Answers: func(p *Progress) int { return 1 + 2*p.Audio },
	},
	{
		Name: sim.ElevenLabsTTS,
		Path: func(*Progress) string { return "/v1/text-to-speech/v/multi-stream-input" },
		Start: func(p *Progress) []Message {
			locators := ""
			if p.Word != "" {
				locators = `,"pronunciation_dictionary_locators":[{"pronunciation_dictionary_id":"` + p.Word + `","version_id":"1"}]`
			}
			return []Message{text(`{"text":" ","context_id":"%s"%s}`, p.ID, locators)}
		},
		Audio: textOf(`{"text":"%[2]s ","context_id":"%[1]s","flush":true}`), AudioKind: frame.Text,
		End: func(p *Progress) []Message {
			return []Message{text(`{"context_id":"%s","close_context":true}`, p.ID)}
		},
		Last:  ends(`"isFinal":true`),
		Final: characters, Speech: inField("audio"),
		Answers: func(p *Progress) int { return 1 + p.Audio },
	},
	{
		Name: sim.AzureSpeech,
		Path: func(*Progress) string { return "/speech/recognition/conversation/cognitiveservices/v1" },
		Start: func(p *Progress) []Message {
			grammars := ""
			if p.Word != "" {
				grammars = `"dgi":{"Groups":[{"Type":"Generic","Items":[{"Text":"` + p.Word + `"}]}]}`
			}
			return []Message{text("Path:speech.config\r\n\r\n{}"), text("%s{%s}", azureHead(p, "speech.context"), grammars)}
		},
		Ready: has("Path:turn.start"),
		Audio: azureAudio,
		End: func(p *Progress) []Message {
			return []Message{{Opcode: frame.Binary, Payload: azureAudio(p, nil, nil)}}
		},
		Last:  ends("Path:turn.end"),
		Final: from(`"DisplayText":`, "Path:speech.phrase"),
	},
}

// azureHead begins a message of Azure's of a turn.
func azureHead(p *Progress, path string) string {
	return fmt.Sprintf("Path:%s\r\nX-RequestId:%032x\r\n\r\n", path, p.Number)
}

// azureAudio puts audio behind a header, which its length precedes.
func azureAudio(p *Progress, scratch, audio []byte) []byte {
	head := azureHead(p, "audio")
	scratch = append(binary.BigEndian.AppendUint16(scratch, uint16(len(head))), head...)
	return append(scratch, audio...)
}

// cartesiaRequest is a request for speech in a context, in which more follows.
const cartesiaRequest = `{"model_id":"sonic-3","transcript":"%[2]s ","context_id":"%[1]s","continue":true,"add_timestamps":true,` +
	`"output_format":{"container":"raw","encoding":"pcm_s16le","sample_rate":24000},"pronunciation_dict_id":"%[3]s"}`

// textOf returns a function that makes messages of the session's id, the word of the chunk, and the session's settings.
func textOf(format string) func(p *Progress, scratch, _ []byte) []byte {
	return func(p *Progress, scratch, _ []byte) []byte {
		return fmt.Appendf(scratch, format, p.ID, sim.ChunkWord(p.Number, uint16(p.Audio)), p.Word)
	}
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

// inBase64 is audio as OpenAI's Realtime API takes it, and those that are like it.
func inBase64(_ *Progress, scratch, audio []byte) []byte {
	scratch = append(scratch, `{"type":"input_audio_buffer.append","audio":"`...)
	scratch = base64.StdEncoding.AppendEncode(scratch, audio)
	return append(scratch, `"}`...)
}

func withWord(path, parameter string, p *Progress) string {
	if p.Word == "" {
		return path
	}
	return fmt.Sprint(path, parameter, url.QueryEscape(p.Word))
}

// Kyutai's server takes 1,920 samples of 32 bits at a time, and sends words kyutaiDelay steps later.
const (
	kyutaiStep  = 1920 * 4
	kyutaiDelay = 6
)

// inMessagePack is audio as Kyutai's server takes it.
func inMessagePack(_ *Progress, scratch, audio []byte) []byte {
	return sim.AppendKyutaiAudio(scratch, audio)
}

// endKyutai fills the last step with silence, sends a marker, and then silence until the marker must have come back.
func endKyutai(p *Progress) []Message {
	silence := inMessagePack(p, nil, make([]byte, kyutaiStep))
	marker := msgp.AppendInt64(msgp.AppendString(sim.AppendKyutai(nil, "Marker", 1), "id"), int64(p.Number))
	said := []Message{{Opcode: frame.Binary, Payload: silence}, {Opcode: frame.Binary, Payload: marker}}
	for range kyutaiDelay {
		said = append(said, Message{Opcode: frame.Binary, Payload: silence})
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
