package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// vllmOmniDialogue is a connection to vLLM-Omni's full-duplex sessions, /v1/realtime?duplex=1 (vllm-project/vllm-omni,
// vllm_omni/entrypoints/duplex/serving.py, 0.30.0). The client's first message opens the session. A server without a place says so, takes nothing
// more, and leaves the connection open. A client that comes back resumes its session at the server that has it. Unlike the real server, it answers in
// text, with all that was said, knows no voice, and keeps sessions for ever, but not their places.
type vllmOmniDialogue struct {
	openAIDialogue
	open, refused bool
	id, token     string
	instructions  string
}

// vllmOmniSession is what the server keeps of a session.
type vllmOmniSession struct {
	token, instructions, history string
	items                        int
}

func (d *vllmOmniDialogue) keep(v *voice) {
	v.sessions.Store(d.id, vllmOmniSession{d.token, d.instructions, d.history, d.items})
}

// resume continues a session that the server has kept.
func (d *vllmOmniDialogue) resume(v *voice, id, token string) {
	kept, ok := v.sessions.Load(id)
	if !ok {
		d.fail(v, "session_resume_expired", "Unknown or expired duplex session: "+id)
		return
	}
	session := kept.(vllmOmniSession)
	if session.token != token {
		d.fail(v, "invalid_resume_token", "Invalid duplex session resume token")
		return
	}
	d.open, d.id, d.token = true, id, token
	d.instructions, d.history, d.items = session.instructions, session.history, session.items
	d.began(v, "session.resumed")
}

// began says that the client has a session.
func (d *vllmOmniDialogue) began(v *voice, event string) {
	v.text(opening, `{"type":"%s","event_id":"%s","session":{"id":"%s","object":"realtime.session","model":"simulated"},"resume_token":"%s"}`,
		event, d.event(), d.id, d.token)
	d.keep(v)
}

func newVLLMOmniDialogue() *vllmOmniDialogue {
	return &vllmOmniDialogue{openAIDialogue: openAIDialogue{recognition: newRecognition("", 16000)}}
}

func (d *vllmOmniDialogue) greet(v *voice) { d.dice = v.dice }

func (d *vllmOmniDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said struct {
		Type    string `json:"type"`
		ID      string `json:"event_id"`
		Audio   string `json:"audio"`
		Resumes string `json:"session_id"`
		Token   string `json:"resume_token"`
		Session struct {
			Instructions string `json:"instructions"`
		} `json:"session"`
	}
	if d.refused {
		return
	}
	d.cause = ""
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.fail(v, "invalid_json", "Invalid JSON event")
		return
	}
	d.cause = said.ID
	if !d.open {
		if said.Type == "session.resume" {
			d.resume(v, said.Resumes, said.Token)
			return
		}
		if !v.place() {
			d.refused = true
			d.fail(v, "resource_exhausted", "duplex_session_capacity_exhausted: limit=1")
			return
		}
		d.open = true
		d.instructions = said.Session.Instructions
		d.id, d.token = fmt.Sprintf("duplex-%016x", v.dice.Uint64()), fmt.Sprintf("%016x", v.dice.Uint64())
		d.began(v, "session.created")
		if said.Type == "session.update" {
			return
		}
	}
	audio, notBase64 := base64.StdEncoding.DecodeString(said.Audio)
	switch {
	case said.Type == "session.update":
		d.instructions = said.Session.Instructions
		v.text(remark, `{"type":"session.updated","event_id":"%s","session":{"object":"realtime.session","model":"simulated"}}`, d.event())
	case said.Type == "input_audio_buffer.append" && notBase64 == nil:
		d.listen(audio)
	case said.Type == "input_audio_buffer.clear":
		d.clear(v)
	case said.Type == "input_audio_buffer.commit":
		d.items++
		words := beside(d.heard.words(), d.instructions)
		d.next()
		d.committed(v, "null", fmt.Sprintf("item_%d", d.items))
		d.remember(words)
		d.keep(v)
		d.respond(v)
	case said.Type == "session.close":
		v.text(remark, `{"type":"session.closed","event_id":"%s","reason":"client_close"}`, d.event())
		v.end(frame.NormalClosure, "client_close")
	default:
		d.fail(v, "unknown_event", "Unknown duplex event type: "+said.Type)
	}
}
