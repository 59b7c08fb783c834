package hunt

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// Message is a whole WebSocket message.
type Message struct {
	Opcode  frame.Opcode // Text or Binary
	Payload []byte
}

// text returns a text message.
func text(format string, args ...any) Message {
	return Message{frame.Text, fmt.Appendf(nil, format, args...)}
}

// Progress is how far a session has come.
type Progress struct {
	// ID is the session's identity as a word that the protocol can carry, such as "s17:0": its task's id, its name.
	ID string
	// Number is the session's identity as a number.
	Number uint64
	// Word is the identity for settings; empty when the session sets nothing.
	Word string
	// Sent and Received count messages, Audio those with audio.
	Sent, Received, Audio int
	// Ended says that the end was said.
	Ended bool
}

// Dialogue is the client's part in a protocol. It is immutable.
type Dialogue struct {
	// Name is that of the protocol.
	Name string
	// Path is override for; nil for "/".
	Path func(p *Progress) string
	// Subprotocol is override for; empty for none.
	Subprotocol string
	// Start are the messages that a session begins with; nil for none.
	Start func(p *Progress) []Message
	// Ready recognises the message that audio has to wait for; nil when it need not wait.
	Ready func(m Message) bool
	// Audio puts audio into a message; nil for a binary message that is nothing else. It may return a slice of scratch.
	Audio func(p *Progress, scratch, audio []byte) []byte
	// AudioKind is the message's kind. Default: Binary.
	AudioKind frame.Opcode
	// Behind follows the first message of audio; nil for nothing.
	Behind func(p *Progress) []Message
	// Blocks are the least and the most blocks of a mark in a message of audio. Default: 1 to 24.
	Blocks [2]int
	// End ends the session; nil for nothing.
	End func(p *Progress) []Message
	// Last recognises the last message of a session; nil when the server's close is the end.
	Last func(p *Progress, m Message) bool
	// Lockstep says that the server answers each message with one, so that the last may have come before the end was said.
	Lockstep bool
	// Closes says that the server closes behind the last message. Otherwise the client does.
	Closes bool
	// Final returns the part of a message that names the audio of a final result, each chunk once; nil of a message that has
	// none. It is nil when final results cannot be told from others.
	Final func(m Message) []byte
	// Overlap is how many chunks of the final result before may be part of the next one.
	Overlap int
	// Step is how many blocks of a mark the recogniser takes at a time; 0 for any number. Other chunks may be part of two results.
	Step int
	// Answers is how many messages a session has received by its last one; nil when it depends on more than the messages sent.
	Answers func(p *Progress) int
	// Busy recognises the message by which a full server turns the client away; nil for none.
	Busy func(m Message) bool
}

// Dialogues returns the names of the protocols that can be hunted in.
func Dialogues() []string {
	var names []string
	for _, d := range dialogues {
		names = append(names, d.Name)
	}
	return names
}

func dialogueNamed(name string) (*Dialogue, error) {
	i := slices.IndexFunc(dialogues, func(d Dialogue) bool { return d.Name == name })
	if i < 0 {
		return nil, spelling.Unknown("protocol", name, Dialogues())
	}
	return &dialogues[i], nil
}

// has returns a function that finds a text in a message.
func has(text string) func(m Message) bool {
	return func(m Message) bool { return bytes.Contains(m.Payload, []byte(text)) }
}

// ends returns a function that finds a text in a message behind the session's end.
func ends(text string) func(p *Progress, m Message) bool {
	return func(p *Progress, m Message) bool { return p.Ended && bytes.Contains(m.Payload, []byte(text)) }
}

// from returns a function that returns a message from the first text on, if the message has the second one.
func from(text, mark string) func(m Message) []byte {
	return func(m Message) []byte {
		i := bytes.Index(m.Payload, []byte(text))
		if i < 0 || !bytes.Contains(m.Payload, []byte(mark)) {
			return nil
		}
		return m.Payload[i:]
	}
}

// until returns a function that cuts off what f returns at a text.
func until(text string, f func(m Message) []byte) func(m Message) []byte {
	return func(m Message) []byte {
		final, _, _ := bytes.Cut(f(m), []byte(text))
		return final
	}
}

// says returns a function that says one text.
func says(message string) func(p *Progress) []Message {
	said := []Message{{frame.Text, []byte(message)}}
	return func(*Progress) []Message { return said }
}
