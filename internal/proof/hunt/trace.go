package hunt

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The size of a trace.
const (
	maxEvents = 64  // how many of the latest events are kept
	maxTraced = 240 // how many bytes of each message are kept
)

// event is something that a client has sent, received or done.
type event struct {
	at      time.Time
	what    string // "sent", "received", or what the client did
	opcode  frame.Opcode
	size    int // of the message
	begins  int // where its bytes begin in trace.bytes
	shown   int // how many of its bytes are there
	message bool
}

// trace records what a session sent and received, for people to read. Its session writes it, and any goroutine may read it.
type trace struct {
	mu      sync.Mutex
	session uint64
	begun   bool
	manner  Manner
	address string // of the client's end
	events  []event
	bytes   []byte
	lost    int // older events that are no longer kept
}

// begin starts the trace of a session, in place of an earlier one.
func (t *trace) begin(session uint64, manner Manner) {
	t.mu.Lock()
	t.session, t.manner, t.begun = session, manner, true
	t.events, t.bytes, t.lost, t.address = t.events[:0], t.bytes[:0], 0, ""
	t.mu.Unlock()
}

// pen writes a session's trace, unless a later session has taken its place.
type pen struct {
	trace   *trace
	session uint64
}

// note adds an action of the client.
func (p pen) note(what string) { p.trace.add(p.session, event{what: what}, nil) }

// message adds a message.
func (p pen) message(what string, m Message) {
	p.trace.add(p.session, event{what: what, opcode: m.Opcode, size: len(m.Payload), message: true}, m.Payload)
}

// from sets the address of the client's end.
func (p pen) from(address string) {
	p.trace.mu.Lock()
	defer p.trace.mu.Unlock()
	if p.trace.session == p.session {
		p.trace.address = address
	}
}

func (t *trace) add(session uint64, e event, payload []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != session {
		return
	}
	if len(t.events) == maxEvents { // drop the older half
		const half = maxEvents / 2
		from := t.events[half].begins
		t.bytes = append(t.bytes[:0], t.bytes[from:]...)
		t.events = append(t.events[:0], t.events[half:]...)
		for i := range t.events {
			t.events[i].begins -= from
		}
		t.lost += half
	}
	e.at = time.Now()
	e.begins = len(t.bytes)
	e.shown = min(len(payload), maxTraced)
	t.bytes = append(t.bytes, payload[:e.shown]...)
	t.events = append(t.events, e)
}

// text returns the trace, a line for each event.
func (t *trace) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "session %d, from %s, manner %v\n", t.session, t.address, t.manner)
	if t.lost > 0 {
		fmt.Fprintf(&b, "  %d earlier events\n", t.lost)
	}
	for _, e := range t.events {
		fmt.Fprintf(&b, "  %s  %s", e.at.Format("15:04:05.000000"), e.what)
		if e.message {
			fmt.Fprintf(&b, " %v, %d bytes: %s", e.opcode, e.size, decoded(t.bytes[e.begins:e.begins+e.shown]))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// decoded returns the marks of the audio in a payload, or the payload as text if it has none.
func decoded(payload []byte) string {
	var marks []string
	sim.Marks(payload, func(m sim.Mark) {
		word := fmt.Sprintf("s%d:%d", m.Session, m.Seq)
		if m.Pause {
			word += " pause"
		}
		if len(marks) == 0 || marks[len(marks)-1] != word {
			marks = append(marks, word)
		}
	})
	switch {
	case len(marks) > 0:
		return "audio of " + strings.Join(marks, ", ")
	case utf8.Valid(payload):
		return strings.Join(strings.Fields(string(payload)), " ")
	}
	return fmt.Sprintf("%.120q", payload)
}

// ring holds the traces of the latest sessions.
type ring struct {
	first  uint64 // identity of the first session
	traces []trace
}

func newRing(size int, first uint64) *ring { return &ring{first: first, traces: make([]trace, size)} }

// of returns the trace of a session, or of a later one that has replaced it.
func (r *ring) of(session uint64) *trace {
	return &r.traces[(session-r.first)%uint64(len(r.traces))]
}

// text returns the trace of a session, if it is still kept.
func (r *ring) text(session uint64) string {
	t := r.of(session)
	t.mu.Lock()
	there := t.begun && t.session == session
	t.mu.Unlock()
	if !there {
		return fmt.Sprintf("session %d: not among the latest %d sessions of this hunt\n", session, len(r.traces))
	}
	return t.text()
}
