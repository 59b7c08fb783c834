package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// gladiaDialogue is a connection to Gladia's real-time service, /v2/live, simulated from its documents and the types of its SDK. Each message of
// audio, binary or in JSON, is acknowledged with its place in the whole audio, and answered with a transcript. StopRecording is
// acknowledged, what is left of the transcript comes, and the whole one, and the server closes. Unlike the real service, it has
// partial transcripts unless the client refuses them, reads the settings of a session from the URL, where clients of the real one
// have only its token, and forgets a session when its connection ends.
type gladiaDialogue struct {
	session    string
	vocabulary string
	partials   bool
	ended      bool
	utterance  int
	whole      []string // final transcripts
	recognition
}

func newGladiaDialogue(query url.Values) *gladiaDialogue {
	return &gladiaDialogue{
		session:     query.Get("token"),
		vocabulary:  strings.Join(query["vocabulary"], " "),
		partials:    query.Get("receive_partial_transcripts") != "false",
		recognition: newRecognition(query.Get("encoding"), number(query.Get("sample_rate"))),
	}
}

func (d *gladiaDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		d.audio(v, message)
		return
	}
	var said struct {
		Type string `json:"type"`
		Data struct {
			Chunk string `json:"chunk"`
		} `json:"data"`
	}
	err := json.Unmarshal(message, &said)
	audio, notBase64 := base64.StdEncoding.DecodeString(said.Data.Chunk)
	switch {
	case err == nil && said.Type == "audio_chunk" && notBase64 == nil:
		d.audio(v, audio)
	case err == nil && said.Type == "stop_recording":
		d.stop(v)
	default: // what the real service does is not documented
		v.end(frame.PolicyViolation, "invalid message")
	}
}

func (d *gladiaDialogue) audio(v *voice, audio []byte) {
	if len(audio) == 0 || d.ended {
		return
	}
	from := d.times.heard
	d.utterances(audio, func(ends bool) {
		if ends || d.partials {
			d.transcript(v, ends)
		}
	})
	d.acknowledge(v, "audio_chunk", fmt.Sprintf(`{"byte_range":[%d,%d],"time_range":[%g,%g]}`, from, d.times.heard, d.times.at(from), d.times.end()))
}

func (d *gladiaDialogue) stop(v *voice) {
	d.ended = true
	d.acknowledge(v, "stop_recording", fmt.Sprintf(`{"recording_duration":%g,"recording_left_to_process":%g}`, d.times.end(), d.times.duration()))
	if d.heard.bytes > 0 {
		d.transcript(v, true)
	}
	d.say(v, last, "post_final_transcript", fmt.Sprintf(`"data":{"metadata":{"audio_duration":%g,"number_of_distinct_channels":1,"billing_time":%[1]g,"transcription_time":0},`+
		`"transcription":{"full_transcript":%s,"languages":["en"],"utterances":[]}}`, d.times.end(), quote(strings.Join(d.whole, " "))))
	v.end(frame.NormalClosure, "")
}

// gladiaWord is a word of an utterance; its times are in seconds.
type gladiaWord struct {
	Word       string  `json:"word"`
	Start      float64 `json:"start"`
	End        float64 `json:"end"`
	Confidence float64 `json:"confidence"`
}

func (d *gladiaDialogue) transcript(v *voice, ends bool) {
	words := beside(d.heard.words(), d.vocabulary)
	timed := timedJSON(&d.times, words, func(w timedWord) gladiaWord { return gladiaWord{w.text, w.start, w.end, 1} })
	data := fmt.Sprintf(`"data":{"id":"00-%08d","is_final":%t,"utterance":{"start":%g,"end":%g,"confidence":1,"channel":0,"words":%s,"text":%s,"language":"en"}}`,
		d.utterance, ends, d.times.start(), d.times.end(), timed, quote(words))
	if ends {
		d.utterance++
		d.whole = append(d.whole, words)
		d.next()
	}
	d.say(v, resultRole(ends), "transcript", data)
}

func (d *gladiaDialogue) acknowledge(v *voice, kind, data string) {
	d.say(v, remark, kind, `"acknowledged":true,"error":null,"data":`+data)
}

// say says a message of that kind with the fields that all have, and others.
func (d *gladiaDialogue) say(v *voice, r role, kind, fields string) {
	v.text(r, `{"session_id":%s,"created_at":"%s","type":"%s",%s}`, quote(d.session), time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), kind, fields)
}
