package sim

import "github.com/wsbouncer/wsbouncer/internal/frame"

// kaldiDialogue is a connection to Kaldi GStreamer server (alumae/kaldi-gstreamer-server, kaldigstserver/master_server.py and
// worker.py). A worker is taken at connect; without one, status 9 and a close. EOS, as text or binary, ends the audio: the last
// result, and the server closes. A worker gives up after 5 s without a result.
type kaldiDialogue struct {
	heard   hearing
	segment int
}

// The statuses of the protocol.
const (
	kaldiSuccess      = 0
	kaldiNoSpeech     = 1
	kaldiNotAvailable = 9
)

func (d *kaldiDialogue) greet(v *voice) {
	if !v.place() {
		v.text(remark, `{"status": %d, "message": "No decoder available, try again later"}`, kaldiNotAvailable)
		v.end(frame.NormalClosure, "")
	}
}

func (d *kaldiDialogue) hear(v *voice, _ frame.Opcode, message []byte) {
	if string(message) == "EOS" {
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		v.end(frame.NormalClosure, "")
		return
	}
	d.heard.listen(message)
	d.result(v, d.heard.pause)
}

func (d *kaldiDialogue) result(v *voice, ends bool) {
	r, words, segment := partial, d.heard.words(), d.segment
	if ends {
		r = final
		d.heard.next()
		d.segment++
	}
	v.text(r, `{"status": %d, "segment": %d, "result": {"hypotheses": [{"transcript": %s}], "final": %t}}`,
		kaldiSuccess, segment, quote(words), ends)
}

func (d *kaldiDialogue) silent(v *voice) {
	v.text(remark, `{"status": %d, "message": "no speech"}`, kaldiNoSpeech)
	v.end(frame.NormalClosure, "")
}
