package load

import (
	"encoding/json"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What can be wrong with the answers of a speech server, as counted in Result.Errors.
const (
	unasked     = "mixed: answer that was not asked for"
	unreadable  = "mixed: answer that is neither partial nor final"
	otherFinals = "mixed: final texts differ from the first session's"
)

// answerKind is the kind of a speech server's answer.
type answerKind int

const (
	neither answerKind = iota
	partial            // the current utterance, which may still change
	final              // an utterance that has ended
)

// parseAnswer parses an answer of a Vosk server, and returns its text and its kind.
func parseAnswer(opcode frame.Opcode, answer []byte) (text string, what answerKind) {
	var parsed struct {
		Partial *string `json:"partial"`
		Text    *string `json:"text"`
	}
	switch err := json.Unmarshal(answer, &parsed); {
	case err != nil || opcode != frame.Text:
		return "", neither
	case parsed.Text != nil:
		return *parsed.Text, final
	case parsed.Partial != nil:
		return *parsed.Partial, partial
	}
	return "", neither
}
