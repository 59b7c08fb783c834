package record

import (
	"encoding/hex"
	"strings"
	"time"
)

// Trace says where a session stands in a distributed trace (W3C Trace Context, https://www.w3.org/TR/trace-context/). A session has
// one if its client sent a valid traceparent or if the proxy traces its sessions. All but Ready and Replied is static once the session begins.
type Trace struct {
	ID     [16]byte // of the trace
	Parent [8]byte  // the client's span; zero if the client sent no traceparent
	Flags  byte     // TraceSampled and TraceRandom
	State  string   // the client's tracestate; empty for none

	// Session and Lease are the proxy's own spans: of the session, and of its time on a backend's connection. They are zero if the
	// proxy traces nothing.
	Session, Lease [8]byte
	// Ready is when the profile saw that the server is ready for what the client sends, and let it through; zero if the profile does
	// not wait for that, or the session is not sampled. Replied is when the server first replied, see [Record].FirstReply. Both are
	// owned by the session's loop.
	Ready, Replied time.Time
}

// The flags of a traceparent. All others are reserved and not passed on.
const (
	TraceSampled = 1 << 0 // the trace is recorded
	TraceRandom  = 1 << 1 // the trace's id is random (Trace Context level 2)
)

// Sampled reports whether the session's spans are recorded. It may be called on a nil Trace.
func (t *Trace) Sampled() bool { return t.Own() && t.Flags&TraceSampled != 0 }

// id returns the trace's id, or an empty text if there is no trace, or one that only the proxy knows of and does not record.
func (t *Trace) ShownID() string {
	if t == nil || t.Parent == [8]byte{} && !t.Sampled() {
		return ""
	}
	return hex.EncodeToString(t.ID[:])
}

// Own reports whether the proxy has spans of its own in the trace.
func (t *Trace) Own() bool { return t != nil && t.Session != [8]byte{} }

// Traceparent returns the header that makes the session's time on a connection the parent of what the backend does.
func (t *Trace) Traceparent() string {
	b := append(make([]byte, 0, traceparentSize), "00-"...)
	b = append(hex.AppendEncode(b, t.ID[:]), '-')
	b = append(hex.AppendEncode(b, t.Lease[:]), '-')
	return string(hex.AppendEncode(b, []byte{t.Flags}))
}

// The headers of Trace Context, in canonical form.
const (
	TraceparentHeader = "Traceparent"
	TracestateHeader  = "Tracestate"
)

const (
	traceparentSize = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00")
	// maxTracestate is the longest tracestate that is kept, in bytes. A proxy may drop what is longer than that (section 3.3.1.5).
	maxTracestate = 512
)

// TraceOf reads the headers of an upgrade request. It returns nil if there is not exactly one valid traceparent.
func TraceOf(header map[string][]string) *Trace {
	values := header[TraceparentHeader]
	if len(values) != 1 {
		return nil
	}
	trace, ok := parseTraceparent(values[0])
	if !ok {
		return nil
	}
	trace.State = tracestate(header[TracestateHeader])
	return trace
}

// parseTraceparent reads a traceparent of version 00, or what it has in common with later ones (sections 3.2 and 4).
func parseTraceparent(text string) (*Trace, bool) {
	text = strings.Trim(text, " \t")
	if len(text) < traceparentSize || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return nil, false
	}
	t, version, flags := new(Trace), [1]byte{}, [1]byte{}
	ok := lowerHex(version[:], text[:2]) && lowerHex(t.ID[:], text[3:35]) && lowerHex(t.Parent[:], text[36:52]) && lowerHex(flags[:], text[53:55])
	switch {
	case !ok, version[0] == 0xff, t.ID == [16]byte{}, t.Parent == [8]byte{}:
		return nil, false
	case len(text) > traceparentSize && (version[0] == 0 || text[traceparentSize] != '-'):
		return nil, false
	}
	t.Flags = flags[0] & (TraceSampled | TraceRandom)
	return t, true
}

// lowerHex decodes text into all of dst. It reports whether text is that and has no upper case, which is not allowed.
func lowerHex(dst []byte, text string) bool {
	n, err := hex.Decode(dst, []byte(text))
	return err == nil && n == len(dst) && text == strings.ToLower(text)
}

// tracestate joins the values of a tracestate header. It returns an empty text if they are too long, or not printable ASCII.
func tracestate(values []string) string {
	joined := strings.Join(values, ",")
	if len(joined) > maxTracestate || strings.ContainsFunc(joined, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
		return ""
	}
	return strings.Trim(joined, " \t,")
}
