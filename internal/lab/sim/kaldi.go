package sim

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// kaldiDialogue is a connection to Kaldi GStreamer server (alumae/kaldi-gstreamer-server, kaldigstserver/master_server.py and
// worker.py). A worker is taken at connect, and is away for a second after its session (the real one for two if its client vanished); without one,
// status 9 some 20 ms later, and a close. EOS, as text or binary, ends the audio: the last result, the state of the adaptation (here none), and
// the server closes. A worker gives up after 5 s without a result. Final results have the times of kaldinnet2onlinedecoder
// (alumae/gst-kaldi-nnet2-online), in seconds: those of the segment in the stream, those of its words in the segment. The audio is as the
// parameter content-type says, or 16 kHz in 16 bits.
type kaldiDialogue struct {
	id string
	recognition
	segment int
}

// kaldiRate finds the rate in GStreamer's caps, such as "audio/x-raw,+layout=(string)interleaved,+rate=(int)8000".
var kaldiRate = regexp.MustCompile(`rate=(?:\(int\))?(\d+)`)

func newKaldiDialogue(query url.Values) *kaldiDialogue {
	rate := 16000
	if found := kaldiRate.FindStringSubmatch(query.Get("content-type")); found != nil {
		rate = number(found[1])
	}
	return &kaldiDialogue{recognition: newRecognition("int16", rate)}
}

// The statuses of the protocol.
const (
	kaldiSuccess      = 0
	kaldiNoSpeech     = 1
	kaldiNotAvailable = 9
)

// kaldiRefuses is how long the master takes to say that no worker is free.
const kaldiRefuses = 20 * time.Millisecond

func (d *kaldiDialogue) greet(v *voice) {
	d.id = uuid(v.dice)
	if !v.place() {
		v.say(reply{
			role: remark, kind: frame.Text, delay: kaldiRefuses,
			payload: fmt.Appendf(nil, `{"status": %d, "message": "No decoder available, try again later"}`, kaldiNotAvailable),
		})
		v.end(frame.NormalClosure, "")
	}
}

func (d *kaldiDialogue) hear(v *voice, _ frame.Opcode, message []byte) {
	if string(message) == "EOS" {
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		v.text(remark, `{"status": %d, "adaptation_state": {"type": "string+gzip+base64", "value": "eJwDAAAAAAE=", "id": "%s"}, "id": "%s"}`, kaldiSuccess, d.id, d.id)
		v.end(frame.NormalClosure, "")
		return
	}
	d.utterances(message, func(ends bool) { d.result(v, ends) })
}

// kaldiWord is a word of a final result. Its time is in seconds since the segment began.
type kaldiWord struct {
	Start      float64 `json:"start"`
	Length     float64 `json:"length"`
	Word       string  `json:"word"`
	Confidence float64 `json:"confidence"`
}

func (d *kaldiDialogue) result(v *voice, ends bool) {
	words := d.heard.words()
	if !ends {
		v.text(partial, `{"status": %d, "segment": %d, "result": {"hypotheses": [{"transcript": %s}], "final": false}, "id": "%s"}`,
			kaldiSuccess, d.segment, quote(words), d.id)
		return
	}
	list := timedJSON(&d.times, words, func(w timedWord) kaldiWord {
		return kaldiWord{toMillisecond(w.start - d.times.start()), toMillisecond(w.end - w.start), w.text, 1}
	})
	v.text(final, `{"status": %d, "segment": %d, "result": {"hypotheses": [{"transcript": %s, "confidence": 1.0, "word-alignment": %s}], "final": true},`+
		` "segment-start": %g, "segment-length": %g, "total-length": %g, "id": "%s"}`,
		kaldiSuccess, d.segment, quote(words), list, d.times.start(), d.times.duration(), d.times.end(), d.id)
	d.next()
	d.segment++
}

func (d *kaldiDialogue) silent(v *voice) {
	v.text(remark, `{"status": %d, "message": "no speech"}`, kaldiNoSpeech)
	v.end(frame.NormalClosure, "")
}
