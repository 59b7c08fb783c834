package sim

import (
	"encoding/json"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// dashScopeDialogue is a connection to Alibaba Cloud Model Studio's real-time speech recognition, simulated from its documents
// (help.aliyun.com, Paraformer and Fun-ASR WebSocket API): tasks with ids that the client chooses, one at a time. A task that
// fails ends the connection.
type dashScopeDialogue struct {
	task       string // id of the task under way; empty for none
	vocabulary string // id of a list of hot words
	recognition
	sentence int // sentences that have ended
}

func (d *dashScopeDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	if kind == frame.Binary {
		if d.task == "" {
			d.fail(v, "", "audio without a task")
			return
		}
		d.utterances(message, func(ends bool) { d.result(v, ends) })
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
				Rate       int    `json:"sample_rate"`
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
		d.task, d.sentence = task, 0
		d.times = newTimeline("", said.Payload.Parameters.Rate)
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
		d.times.next()
		d.task = ""
	default:
		d.fail(v, task, "action "+action+" does not fit")
	}
}

// dashScopeSentence is a sentence of a result. Its times are in milliseconds since the task began.
type dashScopeSentence struct {
	ID        int             `json:"sentence_id"`
	Begin     int             `json:"begin_time"`
	End       *int            `json:"end_time"` // null until the sentence has ended
	Text      string          `json:"text"`
	Heartbeat bool            `json:"heartbeat"`
	Ended     bool            `json:"sentence_end"`
	Words     json.RawMessage `json:"words"`
}

type dashScopeWord struct {
	Begin       int    `json:"begin_time"`
	End         int    `json:"end_time"`
	Text        string `json:"text"`
	Punctuation string `json:"punctuation"`
}

// result gives a result: one that ends its sentence, or one that may change.
func (d *dashScopeDialogue) result(v *voice, ends bool) {
	r, words, usage := partial, beside(d.heard.words(), d.vocabulary), "null"
	sentence := dashScopeSentence{ID: d.sentence + 1, Begin: d.times.ms(d.times.from), Text: words, Ended: ends}
	sentence.Words = timedJSON(&d.times, words, func(w timedWord) dashScopeWord {
		return dashScopeWord{inMilliseconds(w.start), inMilliseconds(w.end), w.text, ""}
	})
	if ends {
		end := d.times.ms(d.times.heard)
		r, sentence.End, usage = final, &end, fmt.Sprintf(`{"duration":%d}`, (end+999)/1000)
		d.next()
		d.sentence++
	}
	d.event(v, r, "result-generated", fmt.Sprintf(`{"output":{"sentence":%s},"usage":%s}`, inJSON(sentence), usage))
}

func (d *dashScopeDialogue) event(v *voice, r role, event, payload string) {
	v.text(r, `{"header":{"task_id":%s,"event":"%s","attributes":{}},"payload":%s}`, quote(d.task), event, payload)
}

// fail reports a failed task; the connection can no longer be used.
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
