package sim

import (
	"cmp"
	"encoding/base64"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// contextsDialogue is a connection to a service that speaks, with several contexts: each message has the id of one, which the client chooses, and
// each context speaks its own text and has an end. Services differ in what their messages look like, and in when they begin to speak.
type contextsDialogue struct {
	vendor   contextsVendor
	least    int // how many characters are enough to begin to speak, where a client asks for nothing else
	most     int // contexts at a time; 0 for no limit
	contexts map[string]*speechContext
	settings string // of the context that was begun last, for StickySettings
	words    int    // that were spoken
}

// contextsVendor is what a service says.
type contextsVendor interface {
	// read reads a client's message, or says what is wrong with it and ends the connection.
	read(v *voice, message []byte) (said contextMessage, ok bool)
	// full says that there is no place for a context: on the connection, if it has as many contexts already, or else for the account.
	full(v *voice, id string, contexts int)
	// spoken says a word of a context and its audio, and flushed that all was said that it had.
	spoken(v *voice, c *speechContext, word string)
	flushed(v *voice, c *speechContext)
	// done says that a context has ended.
	done(v *voice, c *speechContext)
}

// contextMessage is what a client says.
type contextMessage struct {
	id       string
	text     string
	settings string // a word that is said as well, as if it were a pronunciation
	timed    bool   // the client asks for times
	format   timeline
	floats   bool // of 32 bits
	least    int  // how many characters are enough to begin to speak; 0 to leave that as it is
	flush    bool // what was said is to be spoken now
	end      bool // and it is all
	cancel   bool // the context ends without what was not spoken
	close    bool // the connection ends
}

// speechContext is a context that has not ended.
type speechContext struct {
	contextMessage
	waiting string // what is not spoken yet
	flushes int
}

func newContextsDialogue(vendor contextsVendor, least, most int) *contextsDialogue {
	return &contextsDialogue{vendor: vendor, least: least, most: most, contexts: make(map[string]*speechContext)}
}

func (d *contextsDialogue) hear(v *voice, _ frame.Opcode, message []byte) {
	said, ok := d.vendor.read(v, message)
	if !ok {
		return
	}
	c := d.contexts[said.id]
	switch {
	case c == nil && (said.cancel || said.close):
	case c == nil && d.most > 0 && len(d.contexts) == d.most:
		d.vendor.full(v, said.id, d.most)
		return
	case c == nil && !v.place():
		d.vendor.full(v, said.id, 0)
		return
	case c == nil:
		c = &speechContext{contextMessage: said}
		c.least = cmp.Or(said.least, d.least)
		if c.settings == "" && v.hit(v.nasty.StickySettings) {
			c.settings = d.settings
		}
		d.settings = c.settings
		d.contexts[said.id] = c
		fallthrough
	default:
		c.least = cmp.Or(said.least, c.least)
		c.waiting += said.text
		d.speak(v, c, &said)
	}
	if said.close {
		v.end(frame.NormalClosure, "")
	}
}

// speak speaks what is to be spoken now.
func (d *contextsDialogue) speak(v *voice, c *speechContext, said *contextMessage) {
	switch {
	case said.cancel:
		c.waiting = ""
	case said.flush || said.end:
		c.waiting += " "
		fallthrough
	case len(c.waiting) >= c.least:
		words, rest := wholeWords(c.waiting)
		c.waiting = rest
		for _, word := range words {
			d.vendor.spoken(v, c, word)
			c.format.heard += c.format.bytes(utterance)
			d.words++
		}
	}
	switch {
	case said.end && v.hit(v.nasty.ResetIgnored):
	case said.end || said.cancel:
		delete(d.contexts, c.id)
		d.vendor.done(v, c)
	case said.flush:
		c.flushes++
		d.vendor.flushed(v, c)
	}
}

// audio returns the speech of a word in base64.
func (c *speechContext) audio(word string) string {
	return base64.StdEncoding.EncodeToString(appendSpeech(nil, word, c.format.bytes(utterance), c.floats))
}

// words returns what is said at a word: the word, and what the settings add to it.
func (c *speechContext) words(word string) []string { return strings.Fields(beside(word, c.settings)) }

// length is how much was spoken: what a slow server needs its time for.
func (d *contextsDialogue) length() time.Duration { return time.Duration(d.words) * utterance }

// silent ends a connection that is idle: nothing is known of what the services say then, if they have no context.
func (d *contextsDialogue) silent(v *voice) {
	if s, ok := d.vendor.(interface{ silent(v *voice) }); ok && len(d.contexts) > 0 {
		s.silent(v)
		return
	}
	v.end(frame.NormalClosure, "")
}

// bytes returns how many bytes last so long.
func (t *timeline) bytes(d time.Duration) int { return int(d.Seconds() * float64(t.perSecond)) }
