package sim

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// piece is a data frame of a client, or as much of it as has arrived.
type piece struct {
	header  frame.Header // of the frame it belongs to
	first   bool         // the frame begins with it
	last    bool         // the frame ends with it
	payload []byte       // unmasked
}

// splitter splits the data of a frame.Scanner into pieces. The zero value is at a frame boundary.
type splitter struct {
	header frame.Header // of the frame under way; Mask is turned to the next byte
	left   int64        // payload bytes of it that are still to come
}

// next unmasks the piece at the start of b, in place, and returns what follows it. Headers in b are whole: the scanner
// saw to that.
func (s *splitter) next(b []byte) (p piece, rest []byte) {
	if s.left == 0 {
		var size int
		s.header, size, _ = frame.ParseHeader(b)
		s.left = s.header.Length
		p.first = true
		b = b[size:]
	}
	n := int(min(int64(len(b)), s.left))
	p.payload, rest = b[:n], b[n:]
	s.header.Mask = frame.ApplyMask(p.payload, s.header.Mask)
	s.left -= int64(n)
	p.header = s.header
	p.last = s.left == 0
	return p, rest
}
