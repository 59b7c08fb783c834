package load

import "bytes"

// What can be wrong with an echo, as counted in Result.Errors.
const (
	wrongKind    = "mixed: text for binary or binary for text"
	wrongLength  = "mixed: wrong length"
	wrongContent = "mixed: altered content"
	foreign      = "mixed: message of another client or run"
	earlier      = "mixed: message of an earlier session"
	repeated     = "mixed: message repeated"
	notSent      = "mixed: message that was not sent"
	outOfOrder   = "lost: message out of order"
	missing      = "lost: message missing"
)

// reply compares one message of the server with what the client has sent, piece by piece as it arrives.
type reply struct {
	head   [headSize]byte
	got    int    // bytes so far
	number uint32 // the message's number, once the head is complete
	at     int    // where its body begins in the pattern
	wrong  string // what is wrong with the message; empty if nothing so far
}

// begin starts a new message.
func (r *reply) begin() { r.got, r.wrong = 0, "" }

// take compares the message's next piece.
func (r *reply) take(s *script, client uint32, b []byte) {
	if r.got < headSize {
		n := copy(r.head[r.got:], b)
		r.got += n
		b = b[n:]
		if r.got == headSize {
			r.parseHead(s, client)
		}
	}
	from := r.got
	r.got += len(b)
	if len(b) == 0 || r.wrong != "" {
		return
	}
	if r.got > s.size {
		r.wrong = wrongLength
		return
	}
	if n := min(len(b), s.bodyEnd-from); n > 0 {
		at := r.at + from - headSize
		if !bytes.Equal(b[:n], s.pattern[at:at+n]) {
			r.wrong = wrongContent
		}
		b = b[n:]
	}
	for _, c := range b {
		if c != filler {
			r.wrong = wrongContent
		}
	}
}

// parseHead parses the head.
func (r *reply) parseHead(s *script, client uint32) {
	of, ok := hex(r.head[8:])
	number, numbered := hex(r.head[16:])
	if !bytes.Equal(r.head[:8], s.run[:]) || !ok || !numbered || of != client {
		r.wrong = foreign
		return
	}
	r.number, r.at = number, s.place(client, number)
}

// end ends the message, and reports whether it is known which of the client's messages it answers.
func (r *reply) end(s *script) (known bool) {
	if r.got < s.size && r.wrong == "" {
		r.wrong = wrongLength
	}
	return r.got >= headSize && r.wrong != foreign
}
