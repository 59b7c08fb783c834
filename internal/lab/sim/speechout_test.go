package sim

import (
	"testing"
	"time"
)

// A context without text ends the connection; without contexts, nothing is said of it.
func TestContextTimesOut(t *testing.T) {
	talk(t, start(t, Options{Protocol: ElevenLabsTTS, Silence: time.Second}), "/", `
		> {"text":"a","context_id":"c"}
		< "error":"input_timeout_exceeded","code":1008
		< close 1008
	`)
}

// A conversation with each server that speaks.
func TestSpeechOut(t *testing.T) {
	for _, test := range []struct{ protocol, path, script string }{
		{KyutaiTTS, "/api/tts_streaming?format=PcmMessagePack&voice=s7:0", `
			< ^..type.Ready$
			> one s7:1
			> three
			< type.Audio
			< text.one s7:0.*start_s.*stop_s
			> binary ` + "\x00" + `
			< type.Audio
			< text.s7:1 s7:0
			< type.Audio
			< text.three s7:0
			< close 1005
		`},
		{KyutaiTTS, "/api/tts_streaming?format=Pcm", `
			> one two three
			< .
			> binary ` + "\x81\xa4type\xa3Eos" + `
			< .
			< .
			< close 1005
		`},
		{Cartesia, "/tts/websocket", `
			> {"model_id":"m","context_id":"a","transcript":"s7:1 tw","continue":true,"add_timestamps":true,"pronunciation_dict_id":"s7:0","output_format":{"encoding":"pcm_s16le","sample_rate":8000}}
			< ^{"type":"chunk","data":"nWlk4w[^"]*=","done":false,"status_code":206,"step_time":12.5,"context_id":"a"}$
			< ^{"type":"timestamps","done":false,"status_code":206,"context_id":"a","word_timestamps":{"words":\["s7:1","s7:0"\],"start":\[0,0\],"end":\[0.08,0.08\]}}$
			> {"model_id":"m","context_id":"b","transcript":"three","continue":false}
			< "type":"chunk",.*"context_id":"b"
			< ^{"type":"done","done":true,"status_code":200,"context_id":"b"}$
			> {"model_id":"m","context_id":"a","transcript":"o","continue":true,"flush":true}
			< "type":"chunk",.*"context_id":"a"
			< "words":\["two","s7:0"\],"start":\[0.08,0.08\]
			< ^{"type":"flush_done","done":false,"flush_done":true,"flush_id":1,"status_code":206,"context_id":"a"}$
			> {"model_id":"m","context_id":"a","transcript":"four"}
			< "flush_id":2,"context_id":"a"
			< "words":\["four","s7:0"\]
			< "type":"done",.*"context_id":"a"
			> {"model_id":"m","context_id":"c","transcript":"five","continue":true}
			> {"context_id":"c","cancel":true}
			< "type":"done",.*"context_id":"c"
			> {"context_id":"d","transcript":"six"}
			< ^{"type":"error","done":true,"status_code":400,"error_code":"model_id_missing",.*"context_id":"d"}$
		`},
		{ElevenLabsTTS, "/v1/text-to-speech/v/multi-stream-input?output_format=pcm_8000", `
			> {"text":" ","context_id":"a","pronunciation_dictionary_locators":[{"pronunciation_dictionary_id":"s7:0"}]}
			> {"text":"s7:1 ","context_id":"a"}
			> {"text":"","context_id":"a"}
			> {"text":"two ","context_id":"a","flush":true}
			< ^{"audio":"nWlk4w[^"]*","isFinal":null,"normalizedAlignment":{"charStartTimesMs":\[0,8,.*"chars":\["s","7",":","1"," ","s","7",":","0"," "\]},.*"contextId":"a"}$
			< "chars":\["t","w","o"," ","s"
			> {"text":"three","context_id":"a"}
			> {"context_id":"a","close_context":true}
			< ^{"audio":null,"isFinal":true,.*"contextId":"a"}$
			> {"text":"a ","context_id":"b","generation_config":{"chunk_length_schedule":[4]}}
			> {"text":"b ","context_id":"b"}
			< "chars":\["a"," "\]
			< "chars":\["b"," "\]
			> {"close_socket":true}
			< close 1000
		`},
		{ElevenLabsTTS, "/v1/text-to-speech/v/stream-input", `
			> {"text":" ","voice_settings":null,"generation_config":{"chunk_length_schedule":[50]}}
			> {"text":"one two "}
			> {"text":""}
			< ^{"audio":"[^"]*",.*"chars":\["o","n","e"," "\]}}$
			< "chars":\["t"
			< ^{"audio":null,"isFinal":true,"normalizedAlignment":null,"alignment":null}$
			< close 1000
		`},
		{ElevenLabsTTS, "/v1/text-to-speech/v/multi-stream-input", `
			> {"text":"a ","context_id":"1"}
			> {"text":"a ","context_id":"2"}
			> {"text":"a ","context_id":"3"}
			> {"text":"a ","context_id":"4"}
			> {"text":"a ","context_id":"5"}
			> {"text":"a ","context_id":"6"}
			< "error":"max_active_conversations","code":1008
			< close 1008
		`},
	} {
		t.Run(test.protocol, func(t *testing.T) {
			talk(t, start(t, Options{Protocol: test.protocol}), test.path, test.script)
		})
	}
}
