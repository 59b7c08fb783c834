package hunt

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

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
		Name: sim.SherpaONNX,
		End:  says("Done"),
		Last: func(_ *Progress, m Message) bool { return string(m.Payload) == "Done!" },
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
			return []Message{{frame.Binary, []byte("END_OF_AUDIO")}}
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
		Name: sim.KaldiGStreamer,
		Path: func(p *Progress) string {
			return "/client/ws/speech?content-type=audio/x-raw&content-id=" + url.QueryEscape(p.ID)
		},
		End: says("EOS"), Closes: true, Busy: has(`"status": 9`),
	},
}

// newestCompleted returns the last segment of WhisperLive's list if it is completed. Those before it were the last one once.
func newestCompleted(m Message) []byte {
	i := bytes.LastIndex(m.Payload, []byte(`{"start"`))
	if i < 0 || !bytes.Contains(m.Payload[i:], []byte(`"completed": true`)) {
		return nil
	}
	return m.Payload[i:]
}

// inBase64 is audio as OpenAI's Realtime API takes it, and vLLM's.
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
