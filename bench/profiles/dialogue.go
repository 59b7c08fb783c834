//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gobwas/ws"
)

// dialogue is what a client sends in a protocol, and the proxy's profile for it. It is immutable.
type dialogue struct {
	profile     string
	protocol    string
	subprotocol string
	start       func(id string) []ws.Frame // nil for nothing
	ready       string                     // part of the message that must come before audio; empty if none must
	end         func(id string) []ws.Frame
	last        string // part of the server's last message of a session, and of no other between the start and the end
	manners     []manner
}

// manner is how a client leaves.
type manner string

// The manners.
const (
	stays  manner = "waits for its last result"
	ends   manner = "ends, and leaves at once"
	leaves manner = "leaves without an end"
)

// dialogues are the protocols whose return to idle is measured. Clients leave in the manners that the profile lets a connection
// survive: Watson's needs an end message, DashScope's also the end of the task.
var dialogues = []dialogue{
	{
		profile: "vosk", protocol: "vosk",
		end: says(`{"eof" : 1}`), last: `"text"`,
		manners: []manner{stays, ends, leaves},
	},
	{
		profile: "funasr-reused", protocol: "funasr", subprotocol: "binary",
		start: says(`{"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 1, "is_speaking": true}`),
		end:   says(`{"is_speaking": false, "is_end": true}`), last: `"is_end": true`,
		manners: []manner{stays, ends, leaves},
	},
	{
		profile: "sherpa-onnx-reused", protocol: "sherpa-onnx",
		end: says("Done"), last: "Done!",
		manners: []manner{stays, ends, leaves},
	},
	{
		profile: "dashscope-reused", protocol: "dashscope",
		start: func(id string) []ws.Frame {
			return []ws.Frame{text(`{"header":{"action":"run-task","task_id":"` + id + `","streaming":"duplex"},"payload":{"task_group":` +
				`"audio","task":"asr","function":"recognition","model":"paraformer-realtime-v2","parameters":{},"input":{}}}`)}
		},
		ready: `"event":"task-started"`,
		end: func(id string) []ws.Frame {
			return []ws.Frame{text(`{"header":{"action":"finish-task","task_id":"` + id + `","streaming":"duplex"},"payload":{"input":{}}}`)}
		},
		last:    `"event":"task-finished"`,
		manners: []manner{stays},
	},
	{
		profile: "watson-reused", protocol: "watson",
		start: says(`{"action": "start", "content-type": "audio/l16;rate=16000", "interim_results": true}`), ready: `"state": "listening"`,
		end: says(`{"action": "stop"}`), last: `"state": "listening"`,
		manners: []manner{stays, ends},
	},
}

// says returns a function that returns one text message.
func says(payload string) func(string) []ws.Frame {
	return func(string) []ws.Frame { return []ws.Frame{text(payload)} }
}

// begin starts a session, up to its audio.
func (d *dialogue) begin(c *client, id string) error {
	if d.start != nil {
		if err := c.send(d.start(id)...); err != nil {
			return err
		}
	}
	if d.ready != "" {
		return c.await(d.ready)
	}
	return nil
}

// speech is the audio of a session.
func speech() []ws.Frame {
	audio := ws.NewBinaryFrame(make([]byte, frameSize))
	return []ws.Frame{audio, audio, audio}
}

// leave has the client speak and leave. It returns when the client left: when it started to send its close frame, or the frames that
// end with it.
func (d *dialogue) leave(c *client, id string, how manner) (time.Time, error) {
	said := speech()
	if how != leaves {
		said = append(said, d.end(id)...)
	}
	if how == stays {
		if err := c.send(said...); err != nil {
			return time.Time{}, err
		}
		if err := c.await(d.last); err != nil {
			return time.Time{}, err
		}
		said = nil
	}
	left := time.Now()
	return left, c.send(append(said, goodbye())...)
}

// answer returns how long the server takes from the end of a session to its last message, without a proxy.
func (d *dialogue) answer(c *client, id string) (time.Duration, error) {
	defer c.drain()
	if err := errors.Join(c.ask(d.subprotocol), c.upgraded(), d.begin(c, id)); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(c.send(append(speech(), d.end(id)...)...), c.await(d.last)); err != nil {
		return 0, fmt.Errorf("%s server: %w", d.protocol, err)
	}
	took := time.Since(began)
	return took, c.send(goodbye())
}
