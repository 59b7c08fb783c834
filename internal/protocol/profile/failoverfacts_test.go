package profile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// facts are messages of a protocol as its server and clients write them, and what the profile must make of them.
type facts struct {
	profile, query string
	configure      []string // what the client says first
	again          []string // what another server gets of that; the same if nil
	audio          string   // ten seconds, in one message; binary unless it begins with {
	end            string   // the client's end message
	partial, final string   // two results of the first server; the final one answers eight seconds
	greeting       string   // what another server says that the client has had
	other          string   // that final result as another server says it, two seconds of audio later; the final one if empty
	shifted        string   // how the client gets it
}

var silence = func(seconds, bytes int) string { return strings.Repeat("\x00", seconds*bytes) }

var builtInFacts = []facts{
	{
		profile: "vosk", configure: []string{`{"config":{"sample_rate":8000}}`, `{"config":{"words":true}}`},
		again: []string{`{"config":{"sample_rate":8000,"words":true}}`}, audio: silence(10, 16000), end: `{"eof" : 1}`,
		partial: `{"partial":"one"}`, final: `{"result":[{"word":"one","start":1.5,"end":2.0}],"text":"one"}`,
		shifted: `{"result":[{"word":"one","start":11.5,"end":12.0}],"text":"one"}`,
	},
	{
		profile: "funasr", configure: []string{`{"mode":"2pass","chunk_size":[5,10,5],"is_speaking":true}`}, audio: silence(10, 32000),
		end: `{"is_speaking": false}`, partial: `{"mode":"2pass-online","text":"one","is_final":false}`,
		final: `{"mode":"2pass-offline","text":"one","timestamp":"[[10,20]]","is_final":true}`, shifted: `{"mode":"2pass-offline","text":"one","timestamp":"[[10,20]]","is_final":true}`,
	},
	{
		profile: "funasr-realtime", configure: []string{"START", "HOTWORDS:one", "LANGUAGE:en"}, audio: silence(10, 32000), end: "STOP",
		partial:  `{"sentences": [], "partial": "one", "partial_start_ms": 170, "duration_ms": 500, "is_final": false}`,
		final:    `{"sentences": [{"text": "one", "start": 170, "end": 8000}], "partial": "two", "partial_start_ms": 8000, "duration_ms": 9000, "is_final": false}`,
		other:    `{"sentences": [{"text": "two", "start": 170, "end": 8000}], "partial": "", "partial_start_ms": 0, "duration_ms": 9000, "is_final": true}`,
		greeting: `{"event": "started"}`,
		shifted:  `{"sentences": [{"text": "one", "start": 170, "end": 8000},{"text": "two", "start": 8170, "end": 16000}], "partial": "", "partial_start_ms": 0, "duration_ms": 17000, "is_final": true}`,
	},
	{
		profile: "dashscope", configure: []string{`{"header":{"action":"run-task","task_id":"1"},"payload":{"parameters":{"format":"pcm","sample_rate":16000}}}`},
		audio: silence(10, 32000), end: `{"header":{"action":"finish-task","task_id":"1"}}`,
		partial:  `{"header":{"event":"result-generated"},"payload":{"output":{"sentence":{"sentence_id":1,"begin_time":0,"end_time":null,"sentence_end":false,"words":[]}}}}`,
		final:    `{"header":{"event":"result-generated"},"payload":{"output":{"sentence":{"sentence_id":1,"begin_time":170,"end_time":8000,"sentence_end":true,"words":[{"begin_time":170,"end_time":295}]}},"usage":{"duration":9}}}`,
		greeting: `{"header":{"event":"task-started","task_id":"1"}}`,
		shifted:  `{"header":{"event":"result-generated"},"payload":{"output":{"sentence":{"sentence_id":2,"begin_time":8170,"end_time":16000,"sentence_end":true,"words":[{"begin_time":8170,"end_time":8295}]}},"usage":{"duration":17}}}`,
	},
	{
		profile: "watson", configure: []string{`{"action":"start","content-type":"audio/l16;rate=16000;channels=1","interim_results":true,"timestamps":true}`},
		audio: silence(10, 32000), end: `{"action":"stop"}`, partial: `{"result_index":0,"results":[{"final":false,"alternatives":[{"transcript":"one"}]}]}`,
		final:    `{"result_index":0,"results":[{"final":true,"alternatives":[{"timestamps":[["one",0.5,1.25],["two",1.25,8.0]],"transcript":"one two"}]}]}`,
		greeting: `{"state":"listening"}`,
		shifted:  `{"result_index":1,"results":[{"final":true,"alternatives":[{"timestamps":[["one",8.5,9.25],["two",9.25,16.0]],"transcript":"one two"}]}]}`,
	},
	{
		profile: "whisperlive", configure: []string{`{"uid":"u","language":"en","audio_format":"int16"}`}, audio: silence(10, 32000), end: "END_OF_AUDIO",
		partial: `{"uid": "u", "segments": [{"start": "0.000", "end": "1.000", "text": "one", "completed": false}]}`,
		final:   `{"uid": "u", "segments": [{"start": "0.000", "end": "8.000", "text": "one", "completed": true},{"start": "8.000", "end": "9.000", "text": "two", "completed": false}]}`,
		other:   `{"uid": "u", "segments": [{"start": "0.000", "end": "8.000", "text": "two", "completed": true}]}`, greeting: `{"uid": "u", "message": "SERVER_READY"}`,
		shifted: `{"uid": "u", "segments": [{"start": "0.000", "end": "8.000", "text": "one", "completed": true},{"start": "8.000", "end": "16.000", "text": "two", "completed": true}]}`,
	},
	{
		profile: "whisperlivekit", audio: silence(10, 32000), end: "",
		partial:  `{"status":"active_transcription","lines":[],"buffer_transcription":"one"}`,
		final:    `{"status":"active_transcription","lines":[{"speaker":1,"start":"0:00:00.50","end":"0:00:08.00","text":"one"}],"buffer_transcription":""}`,
		other:    `{"status":"active_transcription","lines":[{"speaker":1,"start":"0:00:00.50","end":"0:00:08.00","text":"two"}],"buffer_transcription":""}`,
		greeting: `{"type":"config","useAudioWorklet":true,"mode":"full"}`,
		shifted:  `{"status":"active_transcription","lines":[{"speaker":1,"start":"0:00:00.50","end":"0:00:08.00","text":"one"},{"speaker":1,"start":"0:00:08.50","end":"0:00:16.00","text":"two"}],"buffer_transcription":""}`,
	},
	{
		profile: "realtimestt", audio: silence(10, 32000), end: `{"type":"finalize"}`, greeting: `{"type":"hello","eventSequence":1}`,
		partial: `{"type":"partial","text":"one","eventSequence":4}`,
	},
	{
		profile: "deepgram", query: "encoding=linear16&sample_rate=16000&model=nova-3", audio: silence(10, 32000), end: `{"type": "CloseStream"}`,
		partial: `{"type":"Results","duration":1,"start":0,"is_final":false,"channel":{"alternatives":[{"transcript":"one","words":[]}]}}`,
		final:   `{"type":"Results","duration":7.5,"start":0.5,"is_final":true,"channel":{"alternatives":[{"transcript":"one","words":[{"word":"one","start":0.5,"end":1.32}]}]}}`,
		shifted: `{"type":"Results","duration":7.5,"start":8.5,"is_final":true,"channel":{"alternatives":[{"transcript":"one","words":[{"word":"one","start":8.5,"end":9.32}]}]}}`,
	},
	{
		profile: "assemblyai", query: "sample_rate=8000&encoding=pcm_mulaw", audio: silence(10, 8000), end: `{"type":"Terminate"}`,
		partial:  `{"type":"Turn","turn_order":0,"end_of_turn":false,"transcript":"one","words":[]}`,
		final:    `{"type":"Turn","turn_order":0,"end_of_turn":true,"transcript":"one","words":[{"text":"one","start":160,"end":8000}]}`,
		greeting: `{"type":"Begin","id":"2"}`,
		shifted:  `{"type":"Turn","turn_order":1,"end_of_turn":true,"transcript":"one","words":[{"text":"one","start":8160,"end":16000}]}`,
	},
	{
		profile: "speechmatics", configure: []string{`{"message":"StartRecognition","audio_format":{"type":"raw","encoding":"pcm_f32le","sample_rate":16000}}`},
		audio: silence(10, 64000), end: `{"message":"EndOfStream","last_seq_no":1}`,
		partial:  `{"message":"AddPartialTranscript","metadata":{"start_time":0,"end_time":1,"transcript":"one"},"results":[]}`,
		final:    `{"message":"AddTranscript","metadata":{"start_time":0.5,"end_time":8,"transcript":"one"},"results":[{"type":"word","start_time":0.5,"end_time":8.00}]}`,
		greeting: `{"message":"RecognitionStarted","id":"2"}`,
		shifted:  `{"message":"AddTranscript","metadata":{"start_time":8.5,"end_time":16,"transcript":"one"},"results":[{"type":"word","start_time":8.5,"end_time":16.00}]}`,
	},
	{
		profile: "soniox", configure: []string{`{"model":"m","audio_format":"mulaw","sample_rate":8000,"num_channels":2}`}, audio: silence(10, 16000), end: "",
		partial: `{"tokens":[{"text":"one","start_ms":0,"end_ms":500,"is_final":false}],"final_audio_proc_ms":0,"total_audio_proc_ms":600}`,
		final:   `{"tokens":[{"text":"one","start_ms":500,"end_ms":1320,"is_final":true},{"text":" two","start_ms":8100,"end_ms":8200,"is_final":false}],"final_audio_proc_ms":8000,"total_audio_proc_ms":8300}`,
		shifted: `{"tokens":[{"text":"one","start_ms":8500,"end_ms":9320,"is_final":true},{"text":" two","start_ms":16100,"end_ms":16200,"is_final":false}],"final_audio_proc_ms":16000,"total_audio_proc_ms":16300}`,
	},
	{
		profile: "kaldi-gstreamer", query: "content-type=audio/x-raw,+layout=(string)interleaved,+rate=(int)16000,+format=(string)S16LE,+channels=(int)1",
		audio: silence(10, 32000), end: "EOS", partial: `{"status":0,"segment":0,"result":{"hypotheses":[{"transcript":"one"}],"final":false},"id":"a"}`,
		final:   `{"status":0,"segment":0,"result":{"hypotheses":[{"transcript":"one","word-alignment":[{"start":0.1}]}],"final":true},"segment-start":0.5,"segment-length":7.5,"total-length":8,"id":"a"}`,
		shifted: `{"status":0,"segment":1,"result":{"hypotheses":[{"transcript":"one","word-alignment":[{"start":0.1}]}],"final":true},"segment-start":8.5,"segment-length":7.5,"total-length":16,"id":"a"}`,
	},
	{
		profile:   "vllm-realtime",
		configure: []string{`{"type":"session.update","model":"m"}`, `{"type":"input_audio_buffer.commit"}`},
		audio:     `{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString([]byte(silence(10, 32000))) + `"}`,
		end:       `{"type":"input_audio_buffer.commit","final":true}`, partial: `{"type":"transcription.delta","delta":"one"}`,
	},
}

// op returns the kind of a message that is written as text here.
func op(message string) frame.Opcode {
	if message == "" || (message[0] == 0 || message == "END_OF_AUDIO") {
		return frame.Binary
	}
	return frame.Text
}

// A session whose audio is base64 in text messages is not taken over, since the profile does not count it.
func TestSonioxText(t *testing.T) {
	p, err := Named("soniox")
	if err != nil {
		t.Fatal(err)
	}
	for message, whole := range map[string]bool{`{"type":"finalize"}`: true, `{"type":"keepalive"}`: true, base64.StdEncoding.EncodeToString([]byte(silence(1, 320))): false} {
		tr := NewTracker(p, "")
		tr.Begin(Leg{})
		tr.Sent(tr.ClientMessage(frame.Text, []byte(message), len(message)))
		if (tr.Whole() == "") != whole {
			t.Errorf("%.40s: %q", message, tr.Whole())
		}
	}
}

// So it is with audio in JSON where the profile counts binary audio, and with nothing else that a client says.
func TestNVIDIAText(t *testing.T) {
	k := track(t, "profiles: {p: {from: nvidia-realtime}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"type":"session.update","session":{"sample_rate":16000}}`)
	k.client(frame.Text, `{"type":"input_audio_buffer.clear"}`)
	if k.client(frame.Binary, silence(1, 320)); k.Received() != 320 || k.Spoken() != 1 || k.Whole() != "" {
		t.Errorf("binary audio: %d bytes received, %d messages with audio, %q", k.Received(), k.Spoken(), k.Whole())
	}
	k.client(frame.Text, `{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString([]byte(silence(1, 320)))+`"}`)
	if why := k.Whole(); why != "the client sent audio whose length cannot be told" || k.Spoken() != 2 {
		t.Errorf("audio in base64: %q, %d messages with audio", why, k.Spoken())
	}
}

// A Speechmatics session with audio in JSON, of which no position is known, is not taken over, and its audio is noticed.
func TestSpeechmaticsChannels(t *testing.T) {
	k := track(t, "profiles: {p: {from: speechmatics}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"message":"StartRecognition","transcription_config":{"diarization":"channel"}}`)
	k.client(frame.Text, `{"message":"AddChannelAudio","channel":"a","data":"`+base64.StdEncoding.EncodeToString([]byte(silence(1, 320)))+`"}`)
	if why := k.Whole(); why != "the client sent audio whose length cannot be told" || k.Spoken() != 1 {
		t.Errorf("%q, %d messages with audio", why, k.Spoken())
	}
}

// A transcript of OpenAI's answers the client's commits, in their order.
func TestOpenAIFacts(t *testing.T) {
	p, err := Named("openai-realtime")
	if err != nil {
		t.Fatal(err)
	}
	if conversation := NewTracker(p, "model=gpt-realtime"); conversation.Whole() != "the client did not ask for intent=transcription, without which the profile offers no failover" {
		t.Errorf("a conversation: %q", conversation.Whole())
	}
	tr := NewTracker(p, "intent=transcription")
	tr.Begin(Leg{})
	var entries []Entry
	say := func(message string) {
		e := tr.ClientMessage(frame.Text, []byte(message), len(message))
		tr.Sent(e)
		entries = append(entries, e)
	}
	hear := func(message string) Judgement { return tr.ServerMessage(frame.Text, []byte(message)) }
	second := `{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString([]byte(silence(1, 48000))) + `"}`
	commit := `{"type":"input_audio_buffer.commit"}`
	completed := `{"type":"conversation.item.input_audio_transcription.completed","item_id":"a","transcript":"one"}`
	say(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcm","rate":24000}}}}}`)
	hear(`{"type":"session.updated"}`)
	for range 2 {
		say(second)
		say(commit)
	}
	say(second)
	if j := hear(completed); !j.Pass || !j.Final || tr.Answered() != 48000 || tr.Whole() != "" {
		t.Fatalf("%+v, answered %d, %q", j, tr.Answered(), tr.Whole())
	}
	tr.Begin(Leg{From: tr.Answered()})
	var again []int
	for i, e := range entries {
		if tr.Resend(e) {
			again = append(again, i)
			tr.Sent(e)
		}
	}
	if !slices.Equal(again, []int{3, 4, 5}) {
		t.Errorf("another server gets the messages %v; want what follows the first commit", again)
	}
	if hear(`{"type":"session.updated"}`).Pass || !hear(`{"type":"session.updated"}`).Pass {
		t.Error("one session.updated is hidden, and no more")
	}
	if j := hear(`{"type":"input_audio_buffer.speech_stopped","audio_end_ms":400,"item_id":"b"}`); string(j.Payload) != `{"type":"input_audio_buffer.speech_stopped","audio_end_ms":1400,"item_id":"b"}` {
		t.Errorf("%s", j.Payload)
	}
	if hear(completed); tr.Answered() != 2*48000 || tr.Whole() != "" {
		t.Errorf("answered %d, %q", tr.Answered(), tr.Whole())
	}
	if hear(completed); tr.Whole() != "the server's final result answers no message of the client" {
		t.Errorf("a transcript without a commit: %q", tr.Whole())
	}
}

// A transcript of OpenAI's answers the commit whose receipt named its item, whatever was refused, and in whatever order transcripts come.
func TestOpenAIItems(t *testing.T) {
	const (
		audio     = `{"type":"input_audio_buffer.append","audio":"aaaa"}`
		commit    = `{"type":"input_audio_buffer.commit"}`
		committed = `{"type":"input_audio_buffer.committed","previous_item_id":null,"item_id":"%s"}`
		completed = `{"type":"conversation.item.input_audio_transcription.completed","item_id":"%s","transcript":"Error committing input audio buffer"}`
		failed    = `{"type":"conversation.item.input_audio_transcription.failed","item_id":"%s"}`
	)
	k := track(t, "profiles: {p: {from: openai-realtime, failover: {only: none}}}")
	k.Begin(Leg{})
	say := func(message string) Entry { return k.client(frame.Text, message) }
	hear := func(message, item string) { k.same(strings.Replace(message, "%s", item, 1)) }
	for leg, refusal := range []string{
		`{"type":"error","error":{"type":"invalid_request_error","code":"input_audio_buffer_commit_empty","message":"..."}}`,
		`{"type":"error","event_id":"1","error":{"type":"invalid_request_error","code":null,"message":"Error committing input audio buffer: buffer too small."}}`,
	} {
		start := k.Answered()
		var commits []Entry
		for range 3 {
			say(audio)
			commits = append(commits, say(commit))
			say(commit)
		}
		hear(committed, "a")
		hear(refusal, "")
		hear(committed, "b")
		hear(refusal, "")
		hear(completed, "a")
		if k.answeredTo(start + 3); !k.Done(commits[0]) || k.Done(commits[1]) {
			t.Errorf("leg %d: the first transcript answers the first commit only", leg)
		}
		hear(committed, "c")
		hear(refusal, "")
		hear(completed, "c")
		if k.answeredTo(start + 3); k.Done(commits[2]) {
			t.Errorf("leg %d: the third transcript answers what the second has not", leg)
		}
		say(commit)
		hear(completed, "a")
		if k.answeredTo(start + 3); k.Whole() != "" {
			t.Errorf("leg %d: a transcript that came before: %q", leg, k.Whole())
		}
		hear(refusal, "")
		hear(failed, "b")
		if k.answeredTo(start + 9); !k.Done(commits[2]) || k.Unanswered() != 0 || k.Whole() != "" {
			t.Errorf("leg %d: %q", leg, k.Whole())
		}
		say(audio)
		say(commit)
		hear(committed, "d")
		k.Begin(Leg{From: k.Answered()})
		say(commit)
		hear(committed, "e")
		hear(completed, "e")
	}
	if hear(committed, "f"); k.Whole() != "the server has accepted something that no message of the client asked for" {
		t.Errorf("a turn that the server has found: %q", k.Whole())
	}
}

// RealtimeSTT refuses a second finalize, with the codes that it has for audio behind the first, and a cancelled turn has no completion.
func TestRealtimeSTTTurns(t *testing.T) {
	k := track(t, "profiles: {p: {from: realtimestt}}")
	k.Begin(Leg{})
	const finalize, finalizing, completion = `{"type":"finalize"}`, `{"type":"finalizing"}`, `{"type":"completion"}`
	turn := func() Entry {
		k.client(frame.Text, `{"type":"start"}`)
		k.client(frame.Binary, "aaaa")
		return k.client(frame.Text, finalize)
	}
	turn()
	again := k.client(frame.Text, finalize)
	k.client(frame.Binary, "aaaa")
	k.same(finalizing)
	for range 2 {
		k.same(`{"type":"error","code":"turn_not_active"}`)
	}
	k.same(completion)
	if k.answeredTo(4); k.Done(again) {
		t.Error("a completion answers audio behind its turn")
	}
	turn() // cancelled
	k.same(finalizing)
	k.client(frame.Text, `{"type":"cancel"}`)
	k.same(`{"type":"cancelled"}`)
	third := turn()
	k.same(finalizing)
	k.same(completion)
	if k.answeredTo(16); !k.Done(third) {
		t.Error("the third turn's completion does not answer it")
	}
	again = k.client(frame.Text, finalize)
	if k.same(`{"type":"error","code":"turn_not_active"}`); !k.Done(again) || k.Whole() != "" {
		t.Errorf("a refused finalize is sent again: %q", k.Whole())
	}
	k.client(frame.Binary, "aaaa") // behind the completion
	turn()
	k.same(`{"type":"error","code":"turn_not_active"}`)
	k.same(finalizing)
	k.same(completion)
	if k.answeredTo(24); k.Whole() != "" {
		t.Error(k.Whole())
	}
}

// vLLM refuses commits until it knows the model.
func TestVLLMRefusedCommit(t *testing.T) {
	k := track(t, "profiles: {p: {from: vllm-realtime}}")
	k.Begin(Leg{})
	const commit, final = `{"type":"input_audio_buffer.commit"}`, `{"type":"input_audio_buffer.commit","final":true}`
	for _, message := range []string{commit, final} {
		k.client(frame.Text, message)
		k.same(`{"type":"error","error":"Model not validated.","code":"model_not_validated"}`)
	}
	for _, message := range []string{commit, `{"type":"session.update","model":"m"}`, commit, `{"type":"input_audio_buffer.append","audio":"aaaa"}`, final} {
		k.client(frame.Text, message)
	}
	k.same(`{"type":"error","error":"Model not validated.","code":"model_not_validated"}`) // the first commit
	k.same(`{"type":"transcription.done","text":"one"}`)
	if k.answeredTo(3); k.Whole() != "" {
		t.Error(k.Whole())
	}
}

// sglang refuses a commit without audio, and answers commits in their order.
func TestSGLangFacts(t *testing.T) {
	k := track(t, "profiles: {p: {from: sglang-realtime}}")
	k.Begin(Leg{})
	const commit, completed = `{"type":"input_audio_buffer.commit"}`, `{"type":"conversation.item.input_audio_transcription.completed"}`
	k.client(frame.Text, `{"type":"session.update"}`)
	for _, answer := range []string{completed, `{"type":"error","error":{"code":"invalid_state","message":"Cannot commit an empty audio buffer"}}`, completed} {
		if answer == completed {
			k.client(frame.Text, `{"type":"input_audio_buffer.append","audio":"aaaa"}`)
		}
		e := k.client(frame.Text, commit)
		if k.same(`{"type":"error","error":{"code":"invalid_value","message":"other"}}`); k.Done(e) {
			t.Error("another error answers a commit")
		}
		if k.same(answer); !k.Done(e) {
			t.Errorf("%s does not answer its commit", answer)
		}
	}
}

// A message is cut only if enough of it is left for the server.
func TestLeastAudio(t *testing.T) {
	p, err := Named("assemblyai")
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(p, "sample_rate=16000")
	tr.Begin(Leg{})
	message := []byte(silence(1, 32000/10)) // 100 ms
	e := tr.ClientMessage(frame.Binary, message, len(message))
	for at, want := range map[Position]bool{0: true, 1600: true, 1602: false, 3198: false} {
		if cut, ok := tr.Cut(nil, e, message, at); ok != want || ok && len(cut) != len(message)-int(at) {
			t.Errorf("cut at %d: %t, %d bytes", at, ok, len(cut))
		}
	}
}

// sherpa-onnx says where a segment ended only in its next message.
func TestSherpaFacts(t *testing.T) {
	p, err := Named("sherpa-onnx")
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(p, "")
	tr.Begin(Leg{})
	audio := func() {
		e := tr.ClientMessage(frame.Binary, nil, 10*64000)
		tr.Sent(e)
	}
	hear := func(segment int, start, text string, final, eof string) string {
		message := fmt.Sprintf(`{ "text": "%s", "tokens": [], "segment": %d, "start_time": %s, "is_final": %s, "is_eof": %s}`, text, segment, start, final, eof)
		j := tr.ServerMessage(frame.Text, []byte(message))
		if !j.Pass {
			return "hidden"
		}
		var got struct {
			Segment int     `json:"segment"`
			Start   float64 `json:"start_time"`
		}
		if err := json.Unmarshal(j.Payload, &got); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("segment %d at %g, final %t, answered %gs", got.Segment, got.Start, j.Final, float64(tr.Answered())/64000)
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	audio()
	expect(hear(0, "0.00", "one", "true", "false"), "segment 0 at 0, final true, answered 0s")
	expect(hear(1, "4.00", "", "true", "false"), "segment 1 at 4, final true, answered 4s") // without text: the segment keeps its number
	expect(hear(1, "6.00", "two", "false", "false"), "segment 1 at 6, final false, answered 6s")
	expect(hear(1, "6.00", "two", "true", "false"), "segment 1 at 6, final true, answered 6s")

	// The server dies before it says where segment 1 ended. The next one says it again, and the client does not hear it twice.
	tr.Begin(Leg{From: tr.Answered()})
	audio()
	expect(hear(0, "0.00", "tw", "false", "false"), "hidden")
	expect(hear(0, "0.00", "two", "true", "false"), "hidden")
	tr.CaughtUp()
	expect(hear(1, "3.00", "three", "false", "false"), "segment 2 at 9, final false, answered 9s")
	expect(hear(1, "3.00", "three", "true", "true"), "segment 2 at 9, final true, answered 20s")
}

// What servers and clients send is what the built-in profiles say of it: a session with ten seconds of audio, of which eight are answered, continues
// with another server.
func TestBuiltInFacts(t *testing.T) {
	for _, c := range builtInFacts {
		t.Run(c.profile, func(t *testing.T) {
			p, err := Named(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			if c.profile == "whisperlivekit" { // as it is, audio is in a container
				p = mustParse(t, "profiles: {p: {from: whisperlivekit, failover: {audio: {encoding: s16le}}}}")
			}
			tr := NewTracker(p, c.query)
			tr.Begin(Leg{})
			say := func(message string, want EntryKind) {
				t.Helper()
				e := tr.ClientMessage(op(message), []byte(message), len(message))
				if e.Kind != want {
					t.Errorf("%.80s: kind %d; want %d", message, e.Kind, want)
				}
				tr.Sent(e)
			}
			for _, message := range c.configure {
				say(message, EntryConfiguration)
			}
			say(c.audio, EntryAudio)
			second := tr.Received() / 10
			if d := tr.Duration(int64(second)); tr.Whole() != "" || d.Seconds() != 1 {
				t.Fatalf("%d bytes of audio last %v; want a second; not moved: %q", second, d, tr.Whole())
			}
			hear := func(message string) Judgement { return tr.ServerMessage(op(message), []byte(message)) }
			if c.greeting != "" && !hear(c.greeting).Pass {
				t.Errorf("the first greeting does not pass: %s", c.greeting)
			}
			if j := hear(c.partial); !j.Pass || j.Final || tr.Answered() != 0 || p.Failover().Stall > StallReplies && !j.Sign {
				t.Errorf("%s: %+v, answered %d", c.partial, j, tr.Answered())
			}
			if c.final == "" { // nothing is answered before the end
				say(c.end, EntryEnd)
				return
			}
			answered := 8 * second
			if p.Failover().answered[0].by == MeansCount { // the partial result was the reply to the first message
				say(c.audio, EntryAudio)
				answered = 20 * second
			} else if p.Failover().answered[0].by == MeansUtterance {
				answered = 10*second - second*8/10
			}
			if j := hear(c.final); !j.Pass || !j.Final || string(j.Payload) != c.final || tr.Answered() != answered {
				t.Fatalf("%s: %+v, answered %d; want %d", c.final, j, tr.Answered(), answered)
			}

			from := tr.Answered()
			if p.Failover().answered[0].by == MeansCount {
				from -= 10 * second // what the connection has not heard counts, so pretend that half of it was not answered
			}
			tr.Begin(Leg{From: from})
			if c.again == nil {
				c.again = c.configure
			}
			var again []string
			for op, payload := range tr.Configuration() {
				again = append(again, string(payload))
				if op != frame.Text {
					t.Errorf("%q is binary", payload)
				}
				tr.Sent(Entry{Kind: EntryConfiguration})
			}
			if !slices.Equal(again, c.again) {
				t.Errorf("another server gets %q; want %q", again, c.again)
			}
			if c.greeting != "" && hear(c.greeting).Pass {
				t.Errorf("the greeting passes again: %s", c.greeting)
			}
			say(c.audio, EntryAudio)
			if p.Failover().answered[0].by != MeansCount && hear(c.partial).Pass && len(p.Failover().partial) > 0 {
				t.Errorf("a partial result passes while the server catches up: %s", c.partial)
			}
			tr.CaughtUp()
			if c.other == "" {
				c.other = c.final
			}
			if j := hear(c.other); !j.Pass || !j.Final || string(j.Payload) != c.shifted {
				t.Errorf("%s\ncomes as %s\nwant     %s", c.other, j.Payload, c.shifted)
			}
			say(c.end, EntryEnd)
		})
	}
}
