package sim

import "testing"

// A conversation with each server, from start to end, twice over one connection where that is possible.
func TestProtocols(t *testing.T) {
	for _, test := range []struct{ protocol, path, script string }{
		{Echo, "/", `
			> hello
			< ^hello$
			> audio 1
			< .
		`},
		{Vosk, "/", `
			> {"config" : {"sample_rate" : 16000, "phrase_list" : ["s7:0"]}}
			> audio 1 x20
			< "partial" : "s7:1 s7:0"
			> audio 2 x30
			< "partial" : "s7:1-2 s7:0"
			> {"reset" : 1}
			< "text" : "(speech-\S+ |utterance-\S+ |heard-\S+ )*s7:1-2 s7:0"
			> audio 3 x20 pause
			< "text" : "s7:3 s7:0"
			> audio 4 x20
			< "partial" : "s7:4 s7:0"
			> {"eof" : 1}
			< "text" : "s7:4 s7:0"
			< close 1000
		`},
		{FunASR, "/", `
			> {"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 2, "wav_name": "one", "is_speaking": true, "hotwords": "s7:0"}
			> audio 1
			> audio 2
			< {"mode": "2pass-online", "text": "s7:1-2", "wav_name": "one", "is_final": false}
			> audio 3 pause
			< {"mode": "2pass-offline", "text": "s7:1-3 s7:0", "wav_name": "one", "is_final": true, "timestamp": \[\[0,3\],\[3,6\]\]}
			> audio 4
			> {"is_speaking": false, "is_end": true}
			< {"mode": "2pass-offline", "text": "s7:3-4 s7:0", "wav_name": "one", "is_final": true, "timestamp": \[\[0,2\],\[2,4\]\]}
			< ^{"mode": "2pass", "wav_name": "one", "is_final": true, "is_end": true}$
			> {"is_speaking": true, "wav_name": "two", "mode": "offline"}
			> audio 5
			> {"is_speaking": false, "is_end": true}
			< {"mode": "offline", "text": "s7:5 s7:0", "wav_name": "two", "is_final": true
			< "is_end": true
		`},
		{FunASR, "/", `
			> nonsense
			> audio 1
			> {"is_speaking": false, "is_end": true}
			< "is_final": false, "is_end": true, "error": "audio frame discarded: chunk_size is not configured"}
			> audio 2
			> {"is_speaking": false}
			< close 1000
		`},
		{SherpaONNX, "/", `
			> audio 1
			< "text":"s7:1","tokens":\["s7:1"\],"timestamps":\[0\],"segment":0,"start_time":0.000,"is_final":false,"is_eof":false
			> audio 2 pause
			< "text":"s7:1-2",.*"is_final":true,"is_eof":false
			> audio 3 x1000 pause x200
			< "text":"s7:3",.*"segment":1,"start_time":0.002,"is_final":true,"is_eof":false
			< "text":"s7:3",.*"segment":2,"start_time":0.202,"is_final":false,"is_eof":false
			> audio 4 x2000
			< "text":"s7:3-4",.*"segment":2,"start_time":0.202,"is_final":false
			< "text":"s7:3-4",.*"segment":2,
			> audio 5 x5
			< "text":"s7:3-5",.*"segment":2,
			> Done
			< "text":"s7:3-5",.*"is_final":true,"is_eof":true
			< ^Done!$
			> audio 6
			< "text":"s7:6",.*"segment":0,"start_time":0.000
			> Done
			< "is_eof":true
			< ^Done!$
		`},
		{SherpaPython, "/", `
			> audio 1
			< ^{"text": "s7:1", "segment": 0}$
			> audio 2 pause
			< ^{"text": "s7:1-2", "segment": 0}$
			> audio 3
			< ^{"text": "s7:3", "segment": 1}$
			> Done
			< ^{"text": "s7:3", "segment": 1}$
			< close 1000
		`},
		{SherpaPython, "/", `
			> Hello
			< close 1011
		`},
		{FunASRRealtime, "/", `
			> STOP
			< ^{"event": "stopped"}$
			> audio 1
			> START
			< ^{"event": "started"}$
			> HOTWORDS:s7:0
			< ^{"event": "hotwords_set", "hotwords": \["s7:0"\]}$
			> audio 2
			< ^{"sentences": \[\], "partial": "s7:2 s7:0", "partial_start_ms": 0, "duration_ms": 2, "is_final": false}$
			> audio 3 pause
			< ^{"sentences": \[{"text": "s7:2-3 s7:0", "start": 0, "end": 4}\], "partial": "", "partial_start_ms": 4, "duration_ms": 4, "is_final": false}$
			> audio 4
			< "sentences": \[{"text": "s7:2-3 s7:0", "start": 0, "end": 4}\], "partial": "s7:4 s7:0", "partial_start_ms": 4, "duration_ms": 6,
			> stop
			< {"text": "s7:4 s7:0", "start": 4, "end": 6}\], "partial": "", "partial_start_ms": 0, "duration_ms": 6, "is_final": true}$
			< ^{"event": "stopped"}$
			> nonsense
			> POSTPROCESS_HOTWORDS:|=>x
			< "postprocess_hotwords": {"|": "x"}}$
			> START
			< started
			> audio 5
			< ^{"sentences": \[\], "partial": "s7:5 s7:0", "partial_start_ms": 0, "duration_ms": 2, "is_final": false}$
		`},
		{DashScope, "/", `
			> {"header":{"action":"run-task","task_id":"a"},"payload":{"parameters":{"vocabulary_id":"s7:0","sample_rate":8000}}}
			< "task_id":"a","event":"task-started"
			> audio 1
			< "sentence_id":1,"begin_time":0,"end_time":null,"text":"s7:1 s7:0","heartbeat":false,"sentence_end":false,
			> audio 2 pause
			< "sentence_id":1,"begin_time":0,"end_time":8,"text":"s7:1-2 s7:0",.*"sentence_end":true,"words":\[{"begin_time":0,"end_time":4,"text":"s7:1-2",.*{"begin_time":4,"end_time":8,
			> audio 3
			< "sentence_id":2,"begin_time":8,.*"text":"s7:3 s7:0",.*"sentence_end":false
			> {"header":{"action":"finish-task","task_id":"a"}}
			< "text":"s7:3 s7:0",.*"sentence_end":true.*"usage":{"duration":1}
			< "task_id":"a","event":"task-finished"
			> {"header":{"action":"run-task","task_id":"b"}}
			< "task_id":"b","event":"task-started"
			> audio 4
			< "task_id":"b","event":"result-generated".*"sentence_id":1,"begin_time":0,.*"text":"s7:4",
			> {"header":{"action":"run-task","task_id":"c"}}
			< "task_id":"c","event":"task-failed"
			< close 1000
		`},
		{DashScope, "/", `
			> audio 1
			< "event":"task-failed"
			< close 1000
		`},
		{VLLMRealtime, "/", `
			< "type":"session.created"
			> {"type":"input_audio_buffer.commit"}
			< "code":"model_not_validated"
			> {"type":"session.update"}
			< "error":"Missing required field: model","code":"invalid_event"
			> {"type":"session.update","model":"m"}
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			> {"type":"input_audio_buffer.commit"}
			< "type":"transcription.delta","delta":"s7:1"
			> {"type":"input_audio_buffer.append","audio":"[2]"}
			< "type":"transcription.delta","delta":" s7:2"
			> {"type":"input_audio_buffer.commit","final":true}
			< "type":"transcription.done","text":"s7:1 s7:2"
			> {"type":"input_audio_buffer.commit","final":true}
			> {"type":"input_audio_buffer.append","audio":"[3]"}
			> {"type":"input_audio_buffer.commit"}
			< "type":"transcription.done","text":""
			> {"type":"nonsense"}
			< "code":"unknown_event"
			> binary
			> {"type":"nonsense"}
		`},
		{Watson, "/", `
			> {"action": "start", "interim_results": true, "keywords": ["s7:0"]}
			< {"state": "listening"}
			> audio 1
			< "result_index": 0, "results": \[{"final": false, .*"transcript": "s7:1"}\], "keywords_result": {"s7:0"
			> {"action": "stop"}
			< "final": true, .*"transcript": "s7:1"
			< {"state": "listening"}
			> {"action": "start"}
			< {"state": "listening"}
			> audio 2
			< "transcript": "s7:2"}\], "keywords_result": {"s7:0"
			> binary
			< "final": true
			< {"state": "listening"}
			> audio 3
			< "error"
			< close 1011
		`},
		{Watson, "/", `
			> {"action": "start", "content-type": "audio/l16; rate=8000; channels=2", "interim_results": true, "timestamps": true}
			< listening
			> audio 1 x30 pause x10
			< "result_index": 0, .*"final": true, .*"transcript": "s7:1", "timestamps": \[\["s7:1",0,0.01\]\]
			< "result_index": 1, .*"final": false, .*"timestamps": \[\["s7:1",0.01,0.015\]\]
			> {"action": "stop"}
			< "result_index": 1, .*"final": true
			< listening
			> {"action": "start", "interim_results": false}
			< listening
			> audio 2 x20 pause
			> audio 3 x20
			> {"action": "stop"}
			< "result_index": 0, "results": \[{"final": true, .*\["s7:2",0,0.01\].*{"final": true, .*\["s7:3",0.01,0.02\]
			< listening
		`},
		{WhisperLive, "/", `
			> {"uid": "u", "language": "en", "initial_prompt": "s7:0"}
			< {"uid": "u", "message": "SERVER_READY"
			> audio 1 x4000
			< \[{"start": "0.000", "end": "1.000", "text": "s7:1 s7:0", "completed": false}\]
			> audio 2 x4000 pause x2000
			< \[{"start": "0.000", "end": "1.500", "text": "s7:1-2 s7:0", "completed": true}\]
			< \[{.*"text": "s7:1-2 s7:0", "completed": true}, {"start": "1.500", "end": "2.000", "text": "s7:2 s7:0", "completed": false}\]
			> binary END_OF_AUDIO
			< \[{.*"text": "s7:1-2 s7:0", "completed": true}, {.*"text": "s7:2 s7:0", "completed": true}\]
			< close 1000
		`},
		{WhisperLive, "/", `
			> {"uid": "u", "audio_format": "int16"}
			< SERVER_READY
			> audio 1 x4000
			< "end": "2.000"
		`},
		{WhisperLiveKit, "/asr", `
			< "type":"config"
			> audio 1 x4000
			< "lines":\[\],"buffer_transcription":"s7:1"
			> audio 2 x4000 pause x1000
			< "lines":\[{"speaker":1,"start":"0:00:00.00","end":"0:00:03.50","text":"s7:1-2"}\],"buffer_transcription":"s7:2"
			> audio 3
			< "buffer_transcription":"s7:2-3"
			> binary
			< "text":"s7:1-2"},{.*"start":"0:00:03.50","end":"0:00:04.00","text":"s7:2-3"}\],"buffer_transcription":""
			< "type":"ready_to_stop"
			> audio 4
			> text
			< close 1000
		`},
		{Deepgram, "/v1/listen?model=nova-3&keyterm=s7:0", `
			> {"type":"KeepAlive"}
			> audio 1
			< "is_final":false,.*"transcript":"s7:1 s7:0"
			> audio 2 pause
			< "is_final":true,.*"transcript":"s7:1-2 s7:0"
			> audio 3
			< "is_final":false,
			> {"type":"Finalize"}
			< "is_final":true,.*"transcript":"s7:3 s7:0".*"from_finalize":true
			> {"type":"KeepAlive"}
			> {"type":"Configure","keyterms":[]}
			< "type":"ConfigureSuccess","request_id":"
			> {"type":"Nonsense"}
			< "type":"Error","variant":"SchemaError","description":".+","message":"{
			> audio 4
			< "duration":0.002,"start":0.006,.*"transcript":"s7:4",.*"words":\[{"word":"s7:4","start":0.006,"end":0.008,"confidence":1}\]}\]},"metadata":{"request_id":"\S+","model_info":{"name":"nova-3",
			> {"type":"CloseStream"}
			< "is_final":true
			< "type":"Metadata",.*"sha256":".*"created":".*"duration":0.008,"channels":1}
			< close 1000
		`},
		{AssemblyAI, `/v3/ws?sample_rate=16000&keyterms_prompt=["s7:0"]`, `
			< "type":"Begin","id":"[0-9a-f-]{36}","expires_at":\d+,"configuration":{
			> audio 1 x100
			< "type":"Turn","turn_order":0,.*"end_of_turn":false,"transcript":"s7:1 s7:0","end_of_turn_confidence":0.1,"words":\[{"text":"s7:1","start":0,"end":25,.*"word_is_final":false}
			> {"type":"ForceEndpoint"}
			< "turn_order":0,.*"end_of_turn":true,.*"end_of_turn_confidence":0.9,.*"start":25,"end":50,.*"word_is_final":true}
			> {"type":"KeepAlive"}
			> {"type":"UpdateConfiguration","keyterms_prompt":["s7:9"]}
			> audio 2 x100
			< "turn_order":1,.*"transcript":"s7:2 s7:9"
			> {"type":"Terminate"}
			< "end_of_turn":true
			< "type":"Termination","audio_duration_seconds":0,
			< close 1000
		`},
		{AssemblyAI, "/", `
			< "type":"Begin"
			> audio 1 x99
			< "type":"Error","error_code":3007,"error":"
			< close 3007
		`},
		{AssemblyAI, "/v3/ws?sample_rate=8000&encoding=pcm_mulaw", `
			< "type":"Begin"
			> audio 1 x25
			< "type":"Turn"
			> {"type":"Nonsense"}
			< "type":"Error","error_code":3006
			< close 3006
		`},
		{Speechmatics, "/v2", `
			> {"message": "StartRecognition", "transcription_config": {"additional_vocab": [{"content": "s7:0"}]}}
			< "message": "RecognitionStarted"
			> audio 1
			< "message": "AudioAdded", "seq_no": 1
			< "message": "AddPartialTranscript".*"transcript": "s7:1 s7:0"
			> audio 2 pause
			< "seq_no": 2
			< "message": "AddTranscript", "format": ".*"start_time": 0, "end_time": 0.004, "transcript": "s7:1-2 s7:0"}, "results": \[{"type":"word","start_time":0,"end_time":0.002,"alternatives":\[{"content":"s7:1-2",
			> audio 3
			< "seq_no": 3
			< "AddPartialTranscript"
			> {"message": "ForceEndOfUtterance"}
			< "message": "AddTranscript", .*"start_time": 0.004, "end_time": 0.006,
			< "message": "EndOfUtterance", "metadata": {"start_time": 0.006, "end_time": 0.006}
			> {"message": "SetRecognitionConfig", "transcription_config": {"enable_partials": false}}
			> audio 4
			< "seq_no": 4
			> {"message": "EndOfStream", "last_seq_no": 4}
			< "message": "AddTranscript",
			< "message": "EndOfTranscript"
			< close 1000
		`},
		{Speechmatics, "/v2", `
			> {"message": "StartRecognition"}
			< "message": "RecognitionStarted"
			> {"message": "StartRecognition"}
			< "type": "protocol_error"
			< close 1002
		`},
		{Soniox, "/transcribe-websocket", `
			> {"model":"stt-rt-v5","audio_format":"pcm_s16le","sample_rate":16000,"num_channels":1,"enable_endpoint_detection":true,"context":{"terms":["s7:0"]}}
			> audio 1
			< ^{"tokens":\[{"text":"s7:1","start_ms":0,"end_ms":1,"confidence":1,"is_final":false},{"text":" s7:0",.*"is_final":false}\],"final_audio_proc_ms":0,"total_audio_proc_ms":2}$
			> audio 2 x100 pause x50
			< {"text":"s7:1-2","start_ms":0,"end_ms":14,"confidence":1,"is_final":true},{"text":" s7:0",.*"is_final":true},{"text":"<end>","confidence":1,"is_final":true},{"text":" s7:2","start_ms":27,.*"is_final":false},.*"is_final":false}\],"final_audio_proc_ms":27,"total_audio_proc_ms":52}
			> {"type":"keepalive"}
			> {"type":"finalize"}
			< " s7:2",.*,"is_final":true},{"text":" s7:0",.*"is_final":true},{"text":"<fin>",
			> audio 3
			< " s7:3",.*"is_final":false
			> binary
			< " s7:3",.*"is_final":true
			< ^{"tokens":\[\],"final_audio_proc_ms":54,"total_audio_proc_ms":54,"finished":true}$
			< close 1000
		`},
		{Soniox, "/", `
			> audio 1
			< "error_code":400,"error_message":"Start request must be a text
			< close 1000
		`},
		{Soniox, "/", `
			> {"model":"m","audio_format":"mulaw","sample_rate":8000}
			< "error_code":400,"error_message":"Audio data channels must
			< close 1000
		`},
		{Soniox, "/", `
			> {"model":"m","audio_format":"auto"}
			> {"type":"nonsense"}
			< "error_code":400,"error_message":"Control request invalid type."
			< close 1000
		`},
		{RealtimeSTT, "/", `
			< ^{"type":"hello","apiVersion":"v1","sessionId":"[0-9a-f]{32}","eventSequence":1,
			< "type":"ready",.*"eventSequence":2,
			> audio 1
			< "type":"error",.*"code":"turn_not_started"
			> {"type":"start","language":"xx"}
			< "code":"unsupported_language"
			> {"type":"start"}
			< "type":"started",.*"turnId":"[0-9a-f]+-1","eventSequence":5,
			> {"type":"start"}
			< "code":"turn_in_progress"
			> binary {"a":0}
			< "code":"invalid_audio"
			> {"type":"finalize"}
			< "type":"finalizing",.*"audioPackets":0
			< "type":"final",.*"text":"","status":"no_speech"
			< "type":"completion",
			> {"type":"finalize"}
			< "code":"turn_not_active"
			> {"type":"cancel"}
			< "type":"cancelled"
			> {"type":"cancel"}
			< "code":"turn_not_started"
			> {"type":"reset"}
			< "type":"reset",.*"eventSequence":14,
			> {"type":"ping"}
			< "type":"pong"
			> nonsense
			< "code":"invalid_command_json"
			> {"type":"nonsense"}
			< "code":"unknown_command"
		`},
		{Gladia, "/v2/live?token=t&sample_rate=16000&vocabulary=s7:0", `
			> audio 1
			< ^{"session_id":"t","created_at":"[^"]+","type":"transcript","data":{"id":"00-00000000","is_final":false,"utterance":{"start":0,"end":0.002,.*"words":\[{"word":"s7:1","start":0,"end":0.001,"confidence":1},.*"text":"s7:1 s7:0","language":"en"}}}$
			< "type":"audio_chunk","acknowledged":true,"error":null,"data":{"byte_range":\[0,64\],"time_range":\[0,0.002\]}
			> {"type":"audio_chunk","data":{"chunk":"[2 pause]"}}
			< "id":"00-00000000","is_final":true,"utterance":{"start":0,"end":0.004,.*"text":"s7:1-2 s7:0"
			< "byte_range":\[64,128\]
			> audio 3
			< "id":"00-00000001","is_final":false,"utterance":{"start":0.004,
			< "byte_range":\[128,192\]
			> {"type":"stop_recording"}
			< "type":"stop_recording","acknowledged":true,"error":null,"data":{"recording_duration":0.006,"recording_left_to_process":0.002}
			< "is_final":true,.*"text":"s7:3 s7:0"
			< "type":"post_final_transcript","data":{"metadata":{"audio_duration":0.006,.*"full_transcript":"s7:1-2 s7:0 s7:3 s7:0"
			< close 1000
		`},
		{Gladia, "/v2/live?token=t&receive_partial_transcripts=false", `
			> audio 1
			< "type":"audio_chunk"
			> {"type":"nonsense"}
			< close 1008
		`},
		{OpenAIRealtime, "/v1/realtime?intent=transcription", `
			< "type":"session.created"
			> {"type":"session.update","session":{"input_audio_transcription":{"prompt":"s7:0"}}}
			< "type":"session.updated"
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			> {"type":"input_audio_buffer.commit"}
			< "type":"input_audio_buffer.committed",.*"previous_item_id":null,"item_id":"item_1"
			< "type":"conversation.item.added",.*"previous_item_id":null,"item":{"id":"item_1",
			< "type":"conversation.item.done",.*"previous_item_id":null,"item":{"id":"item_1",
			< transcription.delta",.*"delta":"s7:1 s7:0"
			< transcription.completed",.*"transcript":"s7:1 s7:0","usage":{"type":"duration","seconds":0.001}
			> {"type":"input_audio_buffer.commit"}
			< "type":"error",.*"code":"input_audio_buffer_commit_empty"
			> {"type":"input_audio_buffer.append","audio":"[2]"}
			> {"type":"input_audio_buffer.commit"}
			< "previous_item_id":"item_1"
			< conversation.item.added
			< conversation.item.done
			< transcription.delta
			< transcription.completed
			> {"type":"response.create"}
			< "type":"response.created"
			< "text":"s7:1 s7:0 s7:2 s7:0
			< "type":"response.done"
		`},
		{OpenAIRealtime, "/v1/realtime?model=gpt-realtime", `
			< "session":{"type":"realtime","object":"realtime.session","id":"sess_.*","model":"gpt-realtime",
			> {"type":"session.update","session":{"type":"realtime","audio":{"input":{"transcription":{"model":"m","prompt":"s7:0"}}}}}
			< "type":"session.updated",.*"transcription":{"model":"m","prompt":"s7:0"}
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			> {"type":"input_audio_buffer.commit"}
			< committed
			< added
			< done
			< transcription.delta",.*"delta":"s7:1 s7:0"
			< transcription.completed
		`},
		{OpenAIRealtime, "/v1/realtime", `
			< session.created
			> {"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcmu"},"turn_detection":{"type":"server_vad"}}}}}
			< session.updated
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			< speech_started",.*"audio_start_ms":0,"item_id":"item_1"
			> {"type":"input_audio_buffer.append","audio":"[2 x6 pause x2]"}
			< speech_stopped",.*"audio_end_ms":16,"item_id":"item_1"
			< committed
			< added
			< done
			< transcription.delta
			< transcription.completed",.*"transcript":"s7:1-2"
			< speech_started",.*"audio_start_ms":16,"item_id":"item_2"
		`},
		{SGLangRealtime, "/v1/realtime", `
			< "type":"session.created"
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			< "code":"invalid_state"
			> {"type":"session.update","session":{"type":"realtime"}}
			< "code":"invalid_value"
			> {"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"language":"s7:0"}}}}}
			< "type":"session.updated",.*"language":"s7:0"
			> {"type":"input_audio_buffer.append","audio":"[1 x6000]"}
			< transcription.delta",.*"delta":"s7:1 s7:0"
			> {"type":"input_audio_buffer.append","audio":"[2]"}
			> {"type":"session.update","session":{"type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":16000}}}}}
			< "code":"invalid_state"
			> {"type":"input_audio_buffer.commit"}
			< "type":"input_audio_buffer.committed",.*"previous_item_id":null,"item_id":"item_
			< "type":"conversation.item.created",.*"item":{"id":"item_
			< transcription.delta",.*"delta":" s7:2"
			< transcription.completed",.*"transcript":"s7:1 s7:0 s7:2","usage":{"type":"duration","seconds":2.001}
			> {"type":"input_audio_buffer.append","audio":"[3]"}
			> {"type":"input_audio_buffer.clear"}
			< "type":"input_audio_buffer.cleared"
			> {"type":"input_audio_buffer.commit"}
			< "code":"invalid_state"
			> {"type":"nonsense","event_id":"e"}
			< "code":"unknown_event",.*"event_id":"e"
			> {"type":"input_audio_buffer.append","audio":"[4]"}
			> {"type":"input_audio_buffer.commit"}
			< "previous_item_id":"item_.*","item_id":"item_
			< conversation.item.created
			< transcription.delta",.*"delta":"s7:4 s7:0"
			< transcription.completed
		`},
		{OpenAITranslations, "/v1/realtime/translations?model=m", `
			< "type":"session.created",.*"session":{"id":"sess_[^"]*","type":"translation","model":"m","expires_at":\d+,"audio":{"input":{},"output":{}}}}
			> {"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"w"}},"output":{"language":"es"}}}}
			< "type":"session.updated",.*"audio":{"input":{"transcription":{"model":"w"}},"output":{"language":"es"}}
			> {"type":"session.input_audio_buffer.append","audio":"[1 x300]"}
			> {"type":"session.input_audio_buffer.append","audio":"[2 x900 pause]"}
			< "type":"session.input_transcript.delta",.*"delta":" s7:1-2","elapsed_ms":200}
			< "type":"session.output_transcript.delta",.*"delta":" s7:1-2","elapsed_ms":200}
			> {"type":"session.update","session":{"audio":{"input":{"transcription":null}}}}
			< "type":"session.updated"
			> {"type":"session.input_audio_buffer.append","audio":"[3]"}
			> {"type":"input_audio_buffer.commit"}
			< "type":"error",.*"code":"invalid_value"
			> {"type":"session.close"}
			< "type":"session.output_transcript.delta",.*"delta":" s7:3","elapsed_ms":400}
			< "type":"session.closed"
			< close 1000
		`},
		{SGLangOmni, "/v1/realtime?intent=transcription", `
			< "type": "session.created"
			> {"type":"session.update","session":{"language":"s7:0"}}
			< "type": "session.updated", .*"language": "s7:0"
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			< "input_audio_buffer.speech_started", "audio_start_ms": 0, "segment_id": 0
			< "transcription.segment", "segment_id": 0, "audio_start_ms": 0, "audio_end_ms": 2, "text": "s7:1 s7:0", "is_final": false
			> {"type":"input_audio_buffer.append","audio":"[2 pause]"}
			< "input_audio_buffer.speech_stopped", "audio_end_ms": 4, "segment_id": 0
			< "input_audio_buffer.committed", "segment_id": 0
			< "transcription.segment", "segment_id": 0, "audio_start_ms": 0, "audio_end_ms": 4, "text": "s7:1-2 s7:0", "is_final": true
			> {"type":"input_audio_buffer.append","audio":"[3]"}
			< speech_started
			< "segment_id": 1, "audio_start_ms": 4, "audio_end_ms": 6, .*"is_final": false
			> {"type":"transcription.done"}
			< "input_audio_buffer.committed", "segment_id": 1
			< "segment_id": 1, .*"text": "s7:3 s7:0", "is_final": true
			< "transcription.completed", "text": "s7:1-2 s7:0 s7:3 s7:0"
			> {"type":"input_audio_buffer.clear"}
			< "code": "input_already_done"
		`},
		{VLLMOmni, "/v1/realtime?duplex=1", `
			> {"type":"session.update","session":{"instructions":"s7:0"}}
			< "type":"session.created"
			> {"type":"input_audio_buffer.append","audio":"[1]"}
			> {"type":"input_audio_buffer.commit"}
			< "type":"input_audio_buffer.committed"
			< "type":"response.created"
			< "text":"s7:1 s7:0 "
			< "type":"response.done"
			> {"type":"input_audio_buffer.append","audio":"[2]"}
			> {"type":"input_audio_buffer.clear"}
			< "type":"input_audio_buffer.cleared"
			> {"type":"nonsense","event_id":"e"}
			< "code":"unknown_event",.*"event_id":"e"
			> {"type":"session.close"}
			< "type":"session.closed"
			< close 1000
		`},
		{NVIDIARealtime, "/v1/realtime", `
			< "type":"session.created"
			> {"type":"session.update","session":{"language":"s7:0"}}
			< "type":"session.updated","session":{"language":"s7:0"}
			> audio 1
			< transcription.delta","delta":"s7:1 s7:0","audio_processed":0.002
			> {"type":"input_audio_buffer.append","audio":"[2 pause]"}
			< transcription.completed","transcript":"s7:1-2 s7:0","audio_processed":0.004
			> {"type":"session.update","session":{}}
			< "type":"error"
			> audio 3
			< transcription.delta
			> {"type":"input_audio_buffer.commit"}
			< transcription.completed","transcript":"s7:3 s7:0","audio_processed":0.006
			< "type":"input_audio_buffer.committed"
			> audio 4
			< transcription.delta","delta":"s7:4 s7:0","audio_processed":0.002
			> {"type":"input_audio_buffer.clear"}
			< "type":"input_audio_buffer.cleared"
		`},
		{KaldiGStreamer, "/client/ws/speech?content-type=audio/x-raw,+layout=(string)interleaved,+rate=(int)8000,+format=(string)S16LE", `
			> audio 1 x100
			< {"status": 0, "segment": 0, .*"transcript": "s7:1"}\], "final": false
			> audio 2 x100 pause
			< "segment": 0, .*"transcript": "s7:1-2", .*"word-alignment": \[{"start":0,"length":0.2,"word":"s7:1-2",.*"final": true}, "segment-start": 0, "segment-length": 0.2, "total-length": 0.2,
			> audio 3 x100
			< "segment": 1,
			> EOS
			< "segment": 1, .*\[{"start":0,"length":0.1,.*"final": true}, "segment-start": 0.2, "segment-length": 0.1, "total-length": 0.3,
			< ^{"status": 0, "adaptation_state": {"type": "string\+gzip\+base64", .*}, "id": "
			< close 1000
		`},
	} {
		t.Run(test.protocol, func(t *testing.T) {
			talk(t, start(t, Options{Protocol: test.protocol}), test.path, test.script)
		})
	}
}

// FunASR forgets audio at an acknowledged end only, and settings never.
func TestFunASRKeeps(t *testing.T) {
	s := start(t, Options{Protocol: FunASR, Nasty: NastyOptions{PunctuationMemory: 1}})
	c := dial(t, s)
	converse(t, c, 7, `
		> {"mode": "offline", "chunk_size": [5, 10, 5], "hotwords": "s7:0"}
		> audio 1 pause
		< "text": "s7:1 s7:0", "wav_name": "microphone", "is_final": true
	`)
	converse(t, c, 8, `
		> audio 1
		> {"is_speaking": false}
		< "text": "s7:1 s8:1 s7:0", .*"punc_array": "s7:1 s7:0 s7:1 s8:1 s7:0"}
		> {"is_speaking": true, "hotwords": ""}
		> audio 2
		> {"is_speaking": false, "is_end": true}
		< "text": "s8:2", .*"punc_array": "s7:1 s8:1
		< "is_end": true
	`)
}
