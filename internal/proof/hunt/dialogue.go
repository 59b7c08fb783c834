package hunt

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
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
	// Ended says that the client has sent the end of the session.
	Ended bool
}

// Dialogue is the client's part in a protocol. It is immutable.
type Dialogue struct {
	// Name is that of the protocol.
	Name string
	// Path returns the path and query of the URL; nil for "/".
	Path func(p *Progress) string
	// Subprotocol is the WebSocket subprotocol to ask for; empty for none.
	Subprotocol string
	// Start returns the messages that begin a session; nil for none.
	Start func(p *Progress) []Message
	// Ready recognises the message that audio has to wait for; nil when it need not wait.
	Ready func(m Message) bool
	// Audio puts audio into a message; nil for a binary message with nothing else. It may return a slice of scratch.
	Audio func(p *Progress, scratch, audio []byte) []byte
	// AudioKind is the message's kind. Default: Binary.
	AudioKind frame.Opcode
	// Behind returns the messages that follow the first message of audio; nil for none.
	Behind func(p *Progress) []Message
	// Blocks are the smallest and the largest number of blocks of a mark in a message of audio. Default: 1 to 24.
	Blocks [2]int
	// End returns the messages that end the session; nil for none.
	End func(p *Progress) []Message
	// Last recognises the last message of a session; nil when the server's close is the end.
	Last func(p *Progress, m Message) bool
	// Lockstep says that the server answers each message with one, so that the last answer may have come before the client sent
	// the end.
	Lockstep bool
	// Closes says that the server closes the connection after the last message. Otherwise the client does.
	Closes bool
	// Final returns the part of a message that names the audio of a final result, each chunk once; nil if the message has none.
	// The field is nil if final results cannot be distinguished from others.
	Final func(m Message) []byte
	// Overlap is how many chunks of a final result may also be part of the next one.
	Overlap int
	// Step is how many blocks of a mark the recogniser takes at a time; 0 for any number. Other chunks may be part of two results.
	Step int
	// Answers returns how many messages a session must have received by its last one; nil if that depends on more than the sent
	// messages.
	Answers func(p *Progress) int
	// Busy recognises the message by which a full server refuses the client; nil for none.
	Busy func(m Message) bool
}

// Dialogues returns the names of the protocols that a hunt can use.
func Dialogues() []string {
	var names []string
	for _, d := range dialogues {
		names = append(names, d.Name)
	}
	return names
}

// DialogueNamed returns the dialogue of a protocol.
func DialogueNamed(name string) (*Dialogue, error) {
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

// ends returns a function that finds a text in a message that came after the session's end.
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

// until returns a function that cuts off the result of f at a text.
func until(text string, f func(m Message) []byte) func(m Message) []byte {
	return func(m Message) []byte {
		final, _, _ := bytes.Cut(f(m), []byte(text))
		return final
	}
}

// says returns a function that returns one text message.
func says(message string) func(p *Progress) []Message {
	said := []Message{{frame.Text, []byte(message)}}
	return func(*Progress) []Message { return said }
}
