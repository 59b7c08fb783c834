package verify

import (
	"errors"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// Where direct sessions with the same recording have other words each time, words are not compared. They still tell something: no session may have words of
// another recording.

// words are those of direct sessions.
type words struct {
	heard map[heard]bool
	// differ tells that direct sessions with the same recording have other words.
	differ bool
}

// heard is a word of a direct session with a recording, or all of them.
type heard struct {
	recording int
	words     string
	all       bool
}

// errReworded is returned for results that nothing can be learned from, since direct sessions have other words each time.
var errReworded = errors.New("not compared: direct sessions with the same recording have different words each time")

// hear notes the words of a direct session with a recording.
func (r *run) hear(o *outcome, i int) {
	r.words.differ = r.words.differ || o.words() != r.direct[i].words()
	r.words.heard[heard{i, o.words(), true}] = true
	for _, word := range speaker.Words(o.words()) {
		r.words.heard[heard{i, word, false}] = true
	}
}

// compared reports whether the words of an outcome that does not differ are those of a direct session.
func (r *run) compared(got *outcome, i int) bool {
	return !r.words.differ || r.words.heard[heard{i, got.words(), true}]
}

// foreign returns a word of a session with a recording that direct sessions have only with others; empty for none.
func (r *run) foreign(got *outcome, i int) string {
	for _, word := range speaker.Words(got.words()) {
		if r.words.heard[heard{i, word, false}] {
			continue
		}
		for j := range r.direct {
			if r.words.heard[heard{j, word, false}] {
				return word
			}
		}
	}
	return ""
}

// apart reports whether another recording has words by which it can be told from this one.
func (r *run) apart(i int) bool {
	return slices.ContainsFunc(r.direct, func(o *outcome) bool { return r.foreign(o, i) != "" })
}

// nothingHeard returns an error if direct sessions have nothing that others could be compared with: those of a server whose model is gone may all have
// the same empty text.
func (r *run) nothingHeard() error {
	switch {
	case !slices.ContainsFunc(r.direct, func(o *outcome) bool { return len(o.finals) > 0 }):
		return errors.New("no session had a result: use recordings with speech")
	case !r.worded:
		return errors.New("no result had a word: use recordings with speech, or correct client.text of the profile")
	}
	return nil
}
