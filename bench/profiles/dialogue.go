//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// frameSize is how many bytes of audio a message has.
const frameSize = 3200

// dialogue is a protocol, in which clients say what those of the leak hunt say, and the proxy's profile for it. It is immutable.
type dialogue struct {
	*hunt.Dialogue
	profile string
	// last is part of the last message of a session, where the server closes behind it: no other has it between the start and the end.
	last    string
	manners []manner
}

// manner is how a client leaves.
type manner string

// The manners.
const (
	stays  manner = "waits for its last result"
	ends   manner = "ends, and leaves at once"
	leaves manner = "leaves without an end"
)

// dialogues returns the protocols whose return to idle is measured. Clients leave in the manners that the profile lets a connection
// survive: Watson's needs an end message, DashScope's also the end of the task.
func dialogues() ([]dialogue, error) {
	all := []dialogue{
		{profile: "vosk", last: `"text"`, manners: []manner{stays, ends, leaves}},
		{profile: "funasr-reused", manners: []manner{stays, ends, leaves}},
		{profile: "sherpa-onnx-reused", manners: []manner{stays, ends, leaves}},
		{profile: "dashscope-reused", manners: []manner{stays}},
		{profile: "watson-reused", manners: []manner{stays, ends}},
	}
	for i, protocol := range []string{"vosk", "funasr", "sherpa-onnx", "dashscope", "watson"} {
		var err error
		if all[i].Dialogue, err = hunt.DialogueNamed(protocol, ""); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// progress is that of the n-th session.
func progress(n int) *hunt.Progress {
	return &hunt.Progress{ID: fmt.Sprintf("benchmark-%08d", n), Number: uint64(n)}
}

// begin starts a session, up to its audio.
func (d *dialogue) begin(c *client, p *hunt.Progress) error {
	if err := c.send(false, d.Start(p)...); err != nil || !d.AwaitsReady() {
		return err
	}
	return c.await("message that the server is ready", d.IsReady)
}

// speech is the audio of a session.
func (d *dialogue) speech(p *hunt.Progress) []speaker.Message {
	p.Audio = 3
	return slices.Repeat([]speaker.Message{d.Carry(p, make([]byte, frameSize))}, p.Audio)
}

// end waits for the last message of the session.
func (d *dialogue) end(c *client, p *hunt.Progress) error {
	p.Ended = true
	return c.await("last message", func(m speaker.Message) bool {
		return d.IsLast(p, m) || d.last != "" && bytes.Contains(m.Payload, []byte(d.last))
	})
}

// leave has the client speak and leave. It returns when the client left: when it started to send its close frame, or the frames that
// end with it.
func (d *dialogue) leave(c *client, p *hunt.Progress, how manner) (time.Time, error) {
	said := d.speech(p)
	if how != leaves {
		said = append(said, d.End(p)...)
	}
	if how == stays {
		if err := errors.Join(c.send(false, said...), d.end(c, p)); err != nil {
			return time.Time{}, err
		}
		said = nil
	}
	left := time.Now()
	return left, c.send(true, said...)
}

// answer returns how long the server takes from the end of a session to its last message, without a proxy.
func (d *dialogue) answer(ctx context.Context, address string, p *hunt.Progress) (time.Duration, error) {
	c, err := ask(ctx, address, d.Subprotocol())
	if err != nil {
		return 0, err
	}
	defer c.drain()
	if err := c.upgraded(); err != nil {
		return 0, err
	}
	if err := d.begin(c, p); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(c.send(false, append(d.speech(p), d.End(p)...)...), d.end(c, p)); err != nil {
		return 0, fmt.Errorf("%s server: %w", d.Name, err)
	}
	took := time.Since(began)
	return took, c.send(true)
}
