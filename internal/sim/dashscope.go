package sim

import (
	"encoding/json"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// dashScopeDialogue is a connection to Alibaba Cloud Model Studio's real-time speech recognition, simulated from its documents
// (help.aliyun.com, Paraformer and Fun-ASR WebSocket API): tasks with ids that the client chooses, one at a time. A task that
// fails ends the connection.
type dashScopeDialogue struct {
	task       string // id of the task under way; empty for none
	vocabulary string // id of a list of hot words
	heard      hearing
}

func (d *dashScopeDialogue) greet(*voice) {}

func (d *dashScopeDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if d.task == "" {
			d.fail(v, "", "audio without a task")
			return
		}
		d.heard.listen(message)
		d.result(v, d.heard.pause)
		return
	}
	var said struct {
		Header struct {
			Action string `json:"action"`
			Task   string `json:"task_id"`
		} `json:"header"`
		Payload struct {
			Parameters struct {
				Vocabulary string `json:"vocabulary_id"`
			} `json:"parameters"`
		} `json:"payload"`
	}
	err := json.Unmarshal(message, &said)
	task := said.Header.Task
	switch action := said.Header.Action; {
	case err != nil:
		d.fail(v, d.task, "unreadable message")
	case task == "":
		d.fail(v, d.task, "task_id is missing")
	case action == "run-task" && d.task == "":
		d.task = task
		if vocabulary := said.Payload.Parameters.Vocabulary; vocabulary != "" || !v.hit(v.nasty.StickySettings) {
			d.vocabulary = vocabulary
		}
		d.event(v, opening, "task-started", `{}`)
	case action == "finish-task" && d.task == task:
		if v.hit(v.nasty.ResetIgnored) {
			return
		}
		if d.heard.bytes > 0 {
			d.result(v, true)
		}
		d.event(v, last, "task-finished", `{"output":{},"usage":null}`)
		d.heard.clear()
		d.task = ""
	default:
		d.fail(v, task, "action "+action+" does not fit")
	}
}

// result gives a result: one that ends its sentence, or one that may change.
func (d *dashScopeDialogue) result(v *voice, ends bool) {
	r := partial
	if ends {
		r = final
	}
	words := d.heard.words()
	if d.vocabulary != "" {
		words += " " + d.vocabulary
	}
	sentence := append([]byte(`{"output":{"sentence":{"begin_time":0,"end_time":null,"text":`), quote(words)...)
	if ends {
		sentence = append(sentence, `,"sentence_end":true,"words":[]}},"usage":{"duration":1}}`...)
		d.heard.next()
	} else {
		sentence = append(sentence, `,"sentence_end":false,"words":[]}},"usage":null}`...)
	}
	d.event(v, r, "result-generated", string(sentence))
}

func (d *dashScopeDialogue) event(v *voice, r role, event, payload string) {
	v.text(r, `{"header":{"task_id":%s,"event":"%s","attributes":{}},"payload":%s}`, quote(d.task), event, payload)
}

// fail reports a failed task; the connection cannot be used any more.
func (d *dashScopeDialogue) fail(v *voice, task, reason string) {
	v.text(remark, `{"header":{"task_id":%s,"event":"task-failed","error_code":"CLIENT_ERROR","error_message":%s,"attributes":{}},"payload":{}}`,
		quote(task), quote(reason))
	v.end(frame.NormalClosure, "")
}

// silent ends a connection that is idle: quietly between tasks, with a failure of the task in one.
func (d *dashScopeDialogue) silent(v *voice) {
	if d.task != "" {
		d.fail(v, d.task, "request timeout after 60 seconds")
		return
	}
	v.end(frame.NormalClosure, "")
}
