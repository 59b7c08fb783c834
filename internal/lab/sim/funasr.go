package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// funASRDialogue is a connection to FunASR's server in Python (modelscope/FunASR,
// runtime/python/websocket/funasr_wss_server.py). What a message does not set stays as it was. Results of the streaming model
// ("2pass-online") come every chunk_interval messages, those of the other ("2pass-offline") at a pause or when the client stops
// speaking; the times of their words count from where the speaker began. The end of speaking clears everything but settings and the punctuation model's
// memory, and is acknowledged if "is_end" asks for it. Audio before chunk_size is lost, which ends the session in an error.
type funASRDialogue struct {
	funASRSettings
	frames   [][]byte // the last messages of audio
	segment  [][]byte // audio since the speaker began
	chunk    [][]byte // audio that the streaming model has not taken
	online   hearing  // the streaming model's cache
	inSpeech bool     // voice detection has found a beginning
	marks    MarkScanner
	bytes    int    // of audio in all
	sentence string // what the punctuation model remembers
	lost     bool   // audio came before chunk_size
}

// funASRSettings are what messages set. What a message does not have stays as it was.
type funASRSettings struct {
	Mode          string          `json:"mode"`
	WavName       string          `json:"wav_name"`
	Hotwords      string          `json:"hotwords"`
	ChunkInterval int             `json:"chunk_interval"`
	ChunkSize     json.RawMessage `json:"chunk_size"`
	Speaking      bool            `json:"is_speaking"`
}

const (
	// funASRKept is how many messages of audio are kept behind a pause.
	funASRKept = 20
	// funASRPerSecond are the bytes of a second of audio: 16,000 samples of 16 bits.
	funASRPerSecond = 32000
)

func newFunASRDialogue() *funASRDialogue {
	return &funASRDialogue{funASRSettings: funASRSettings{Mode: "2pass", WavName: "microphone", ChunkInterval: 10, Speaking: true}}
}

func (d *funASRDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		switch {
		case d.ChunkSize == nil:
			d.lost = true
		case d.listen(v, bytes.Clone(message)) || !d.Speaking:
			d.endSegment(v)
		}
		return
	}
	var said struct {
		Speaking *bool `json:"is_speaking"`
		IsEnd    bool  `json:"is_end"`
	}
	if json.Unmarshal(message, &said) != nil || json.Unmarshal(message, &d.funASRSettings) != nil {
		return
	}
	d.ChunkInterval = max(1, d.ChunkInterval)
	if said.Speaking == nil || *said.Speaking || said.IsEnd && v.hit(v.nasty.ResetIgnored) {
		return
	}
	if len(d.chunk) > 0 || len(d.segment) > 0 {
		d.endSegment(v)
	}
	switch {
	case said.IsEnd && d.lost:
		v.text(last, `{"mode": %s, "wav_name": %s, "is_final": false, "is_end": true, "error": "audio frame discarded: chunk_size is not configured"}`,
			quote(d.Mode), quote(d.WavName))
	case said.IsEnd:
		v.text(last, `{"mode": %s, "wav_name": %s, "is_final": true, "is_end": true}`, quote(d.Mode), quote(d.WavName))
	case d.lost:
		v.end(frame.NormalClosure, "")
	}
	d.clear()
}

// listen hears audio and reports whether the speaker pauses.
func (d *funASRDialogue) listen(v *voice, audio []byte) (pause bool) {
	d.bytes += len(audio)
	d.frames = append(d.frames, audio)
	d.chunk = append(d.chunk, audio)
	if len(d.chunk)%d.ChunkInterval == 0 {
		if d.Mode == "2pass" || d.Mode == "online" {
			for _, a := range d.chunk {
				d.online.listen(a)
			}
			d.result(v, partial, "online", d.online.words(), "")
			d.online.next()
		}
		d.chunk = nil
	}
	if d.inSpeech {
		d.segment = append(d.segment, audio)
	}
	d.marks.Scan(audio, func(m Mark) {
		if !d.inSpeech { // a little of what came before belongs to it
			d.inSpeech = true
			d.segment = append([][]byte(nil), d.frames[max(0, len(d.frames)-2):]...)
		}
		pause = pause || m.Pause
	})
	return pause
}

// endSegment gives the final result of the audio since the speaker began.
func (d *funASRDialogue) endSegment(v *voice) {
	if d.Mode == "2pass" || d.Mode == "offline" {
		var h hearing
		for _, a := range d.segment {
			h.listen(a)
		}
		words := h.words()
		if words != "" && d.Hotwords != "" {
			words += " " + d.Hotwords
		}
		times := timeline{perSecond: funASRPerSecond, heard: h.bytes}
		list := timedJSON(&times, words, func(w timedWord) [2]int { return [2]int{inMilliseconds(w.start), inMilliseconds(w.end)} })
		d.result(v, final, "offline", words, fmt.Sprintf(`, "timestamp": %s`, list))
	}
	d.segment, d.chunk, d.inSpeech = nil, nil, false
	d.online.clear()
	if d.Speaking {
		d.frames = d.frames[max(0, len(d.frames)-funASRKept):]
	} else {
		d.frames = nil
	}
}

// result gives a result, unless it is empty. times is what it says of its words' times, if anything.
func (d *funASRDialogue) result(v *voice, r role, pass, words, times string) {
	if words == "" {
		return
	}
	mode := d.Mode
	if mode == "2pass" {
		mode = "2pass-" + pass
	}
	punctuation := ""
	if r == final && v.nasty.PunctuationMemory > 0 {
		if d.sentence != "" && v.hit(v.nasty.PunctuationMemory) {
			punctuation = `, "punc_array": ` + string(quote(d.sentence+" "+words))
		}
		d.sentence = words
	}
	v.text(r, `{"mode": %s, "text": %s, "wav_name": %s, "is_final": %t%s%s}`,
		quote(mode), quote(words), quote(d.WavName), r == final || !d.Speaking, times, punctuation)
}

func (d *funASRDialogue) length() time.Duration {
	return time.Duration(d.bytes) * time.Second / funASRPerSecond
}

// clear forgets all audio.
func (d *funASRDialogue) clear() {
	d.frames, d.segment, d.chunk, d.inSpeech, d.lost = nil, nil, nil, false, false
	d.online.clear()
	d.marks = MarkScanner{}
}
