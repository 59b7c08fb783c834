package hunt

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// maxShown is how many bytes of each message a trace shows.
const maxShown = 240

// trace records what a session sent and received. Its session writes it, and any goroutine may read it.
type trace struct {
	kit.Trace
	session uint64 // static
	manner  Manner // static
}

// message adds a message.
func (t *trace) message(what string, m Message) {
	t.Add("%s %v, %d bytes: %s", what, m.Opcode, len(m.Payload), decoded(m.Payload))
}

// String returns the trace, a line for each event.
func (t *trace) String() string {
	return fmt.Sprintf("session %d, manner %v\n%s", t.session, t.manner, t.Trace.String())
}

// decoded returns the marks of the audio at the beginning of a payload, or that as text if it has none.
func decoded(payload []byte) string {
	payload = payload[:min(len(payload), maxShown)]
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

// ring holds the traces of the latest sessions. Its methods may be called from any goroutine.
type ring struct {
	first  uint64 // static: identity of the first session
	traces []atomic.Pointer[trace]
}

func newRing(size int, first uint64) *ring {
	return &ring{first: first, traces: make([]atomic.Pointer[trace], size)}
}

func (r *ring) at(session uint64) *atomic.Pointer[trace] {
	return &r.traces[(session-r.first)%uint64(len(r.traces))]
}

// begin begins the trace of a session, in place of an earlier one's.
func (r *ring) begin(session uint64, manner Manner) *trace {
	t := &trace{session: session, manner: manner}
	r.at(session).Store(t)
	return t
}

// text returns the trace of a session, if it is still kept.
func (r *ring) text(session uint64) string {
	if t := r.at(session).Load(); t != nil && t.session == session {
		return t.String()
	}
	return fmt.Sprintf("session %d: not among the latest %d sessions of this hunt\n", session, len(r.traces))
}
