package sim

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// funASRRealtimeDialogue is a connection to FunASR's realtime server (modelscope/FunASR, funasr/bin/realtime_ws.py). START clears everything but
// settings, which stay for the connection. Each message has all sentences since then, and what the speaker says now. Audio counts from START to
// STOP, which ends the sentence under way. Commands may be in lower case; other texts are ignored. (The real server answers 960 ms of audio at a
// time, and ends a sentence 2 s after the speaker.)
type funASRRealtimeDialogue struct {
	recognition
	active    bool
	sentences []string
	hot       string // hot words, which show in texts
}

func newFunASRRealtimeDialogue() *funASRRealtimeDialogue {
	return &funASRRealtimeDialogue{recognition: newRecognition("", 16000)}
}

func (d *funASRRealtimeDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if d.active {
			d.utterances(message, func(ends bool) { d.result(v, ends, false) })
		}
		return
	}
	command := strings.TrimSpace(string(message))
	name, value, sets := strings.Cut(command, ":")
	switch name = strings.ToUpper(name); {
	case name == "START" && !sets:
		if !v.hit(v.nasty.ResetIgnored) {
			*d = funASRRealtimeDialogue{recognition: newRecognition("", 16000), hot: d.hot}
		}
		d.active = true
		v.text(opening, `{"event": "started"}`)
	case name == "STOP" && !sets:
		if d.active && d.times.heard > 0 {
			d.result(v, d.heard.bytes > 0, true)
		}
		d.active = false
		v.text(last, `{"event": "stopped"}`)
	case name == "HOTWORDS" && sets:
		d.hot = strings.TrimSpace(value)
		v.text(remark, `{"event": "hotwords_set", "hotwords": [%s]}`, quote(d.hot))
	case name == "POSTPROCESS_HOTWORDS" && sets:
		wrong, right, _ := strings.Cut(value, "=>")
		v.text(remark, `{"event": "postprocess_hotwords_set", "postprocess_hotwords": {%s: %s}}`, quote(wrong), quote(right))
	case name == "LANGUAGE" && sets:
		v.text(remark, `{"event": "language_set", "language": %s}`, quote(value))
	}
}

// result says all sentences, and the one under way, if it does not end.
func (d *funASRRealtimeDialogue) result(v *voice, ends, stopped bool) {
	words, from := beside(d.heard.words(), d.hot), d.times.ms(d.times.from)
	if ends {
		d.sentences = append(d.sentences, fmt.Sprintf(`{"text": %s, "start": %d, "end": %d}`, quote(words), from, d.times.ms(d.times.heard)))
		d.next()
		words, from = "", d.times.ms(d.times.heard)
	}
	if stopped {
		from = 0
	}
	v.text(resultRole(ends), `{"sentences": [%s], "partial": %s, "partial_start_ms": %d, "duration_ms": %d, "is_final": %t}`,
		strings.Join(d.sentences, ", "), quote(words), from, d.times.ms(d.times.heard), stopped)
}
