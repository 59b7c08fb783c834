package frame

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// reference is what other implementations find in a whole stream: gobwas/ws decodes and checks the headers, the standard
// library checks the text. Where the RFC leaves a choice, our choice is added by hand.
type reference struct {
	passed     []byte
	ends       []int // of the data frames, as offsets into passed
	controls   []control
	frames     uint64
	messages   uint64
	bytes      uint64
	tail       int      // bytes of a header or a control frame that is not complete
	defects    []*Error // what is wrong with the first bad frame; any of them may be reported
	badText    bool
	inMessage  bool // at the end
	unfinished bool // the last data frame is not complete
}

func (r *reference) bad() bool { return len(r.defects) > 0 }

// checkedBy returns which of our errors correspond to an error of gobwas.
var checkedBy = map[error][]*Error{
	ws.ErrProtocolOpCodeReserved:             {ErrReservedOpcode},
	ws.ErrProtocolControlPayloadOverflow:     {ErrLongControl},
	ws.ErrProtocolControlNotFinal:            {ErrFragmentedControl},
	ws.ErrProtocolNonZeroRsv:                 {ErrReservedBits},
	ws.ErrProtocolMaskRequired:               {ErrNotMasked},
	ws.ErrProtocolMaskUnexpected:             {ErrMasked},
	ws.ErrProtocolContinuationExpected:       {ErrInMessage},
	ws.ErrProtocolContinuationUnexpected:     {ErrNoMessage},
	ws.ErrProtocolStatusCodeNotInUse:         {ErrCloseCode},
	ws.ErrProtocolStatusCodeApplicationLevel: {ErrCloseCode},
	ws.ErrProtocolStatusCodeNoMeaning:        {ErrCloseCode},
	ws.ErrProtocolStatusCodeUnknown:          {ErrCloseCode},
	ws.ErrProtocolInvalidUTF8:                {ErrCloseReason},
}

// judgeHeader returns everything that is wrong with one frame's header. The scanner may see only some of it, depending on how
// many bytes it has.
func judgeHeader(t testing.TB, h ws.Header, size int, fromClient, inMessage bool, room int64) []*Error {
	var defects []*Error
	add := func(wrong bool, err *Error) {
		if wrong {
			defects = append(defects, err)
		}
	}
	add(h.Rsv != 0, ErrReservedBits)
	add(h.OpCode.IsReserved(), ErrReservedOpcode)
	add(h.OpCode.IsControl() && !h.Fin, ErrFragmentedControl)
	add(h.OpCode.IsControl() && size-maskSize(h) > 2, ErrLongControl)
	add(fromClient && !h.Masked, ErrNotMasked)
	add(!fromClient && h.Masked, ErrMasked)
	if h.OpCode.IsData() || h.OpCode == ws.OpContinuation {
		add(h.OpCode == ws.OpContinuation && !inMessage, ErrNoMessage)
		add(h.OpCode != ws.OpContinuation && inMessage, ErrInMessage)
		// The marker in front of the length may already show that the length is too large.
		marker := []int64{2: 0, 4: 126, 10: 127}[size-maskSize(h)]
		add(max(h.Length, marker) > room, ErrMessageSize)
	}
	// This is stricter than gobwas on purpose, which decodes lengths in any form: RFC 6455, section 5.2, says "the minimal number
	// of bytes MUST be used".
	add(size != ws.HeaderSize(h), ErrLengthEncoding)

	// Without what gobwas does not check, the list above must agree with gobwas.
	state := ws.StateClientSide
	if fromClient {
		state = ws.StateServerSide
	}
	if inMessage {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(h, state); err != nil {
		if !slices.ContainsFunc(checkedBy[err], func(e *Error) bool { return slices.Contains(defects, e) }) {
			t.Fatalf("gobwas says %v of %+v, the reference %v", err, h, defects)
		}
	} else if slices.ContainsFunc(defects, func(e *Error) bool {
		nonMinimal := e == ErrLongControl && h.Length <= MaxControlPayload
		return e != ErrMessageSize && e != ErrLengthEncoding && !nonMinimal
	}) {
		t.Fatalf("gobwas says nothing of %+v, the reference %v", h, defects)
	}
	return defects
}

func maskSize(h ws.Header) int {
	if h.Masked {
		return 4
	}
	return 0
}

// decode reads a whole stream with gobwas.
func decode(t testing.TB, stream []byte, fromClient bool, limit int64) *reference {
	r := &reference{}
	const unlimited = 1<<63 - 1
	if limit == 0 {
		limit = unlimited
	}
	var text []byte // of the current message
	isText, room := false, limit
	for pos := 0; pos < len(stream); {
		reader := bytes.NewReader(stream[pos:])
		h, err := ws.ReadHeader(reader)
		switch {
		case errors.Is(err, ws.ErrHeaderLengthMSB):
			// The limit and the direction may make more of this frame wrong, but its header is not decoded.
			r.defects = []*Error{ErrLengthEncoding, ErrLongControl, ErrNotMasked, ErrMasked, ErrNoMessage, ErrInMessage, ErrMessageSize, ErrReservedBits, ErrReservedOpcode, ErrFragmentedControl}
			return r
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			r.tail = len(stream) - pos
			r.defects = partialDefects(t, stream[pos:], fromClient, r.inMessage, room)
			return r
		case err != nil:
			t.Fatalf("gobwas: %v", err)
		}
		size := len(stream) - pos - reader.Len()
		if r.defects = judgeHeader(t, h, size, fromClient, r.inMessage, room); r.bad() {
			return r
		}
		available := int(min(int64(reader.Len()), h.Length))
		payload := bytes.Clone(stream[pos+size : pos+size+available])
		if h.Masked {
			ws.Cipher(payload, h.Mask, 0)
		}
		complete := int64(available) == h.Length
		if h.OpCode.IsControl() {
			if !complete {
				r.tail = len(stream) - pos
				return r
			}
			r.controls = append(r.controls, control{len(r.passed), Opcode(h.OpCode), string(payload)})
			pos += size + available
			continue
		}
		if h.OpCode != ws.OpContinuation {
			isText, text = h.OpCode == ws.OpText, nil
		}
		if fromClient && isText {
			text = append(text, payload...)
			if !validSoFar(text) || complete && h.Fin && !utf8.Valid(text) {
				r.defects, r.badText = []*Error{ErrText}, true
				return r
			}
		}
		r.passed = append(r.passed, stream[pos:pos+size+available]...)
		pos += size + available
		r.frames++
		r.bytes += uint64(available)
		if limit != unlimited { // the frames of a message may have more bytes than a number can say
			room -= h.Length
		}
		r.inMessage, r.unfinished = true, !complete
		if complete {
			r.ends = append(r.ends, len(r.passed))
			if h.Fin {
				r.messages++
				r.inMessage, room = false, limit
			}
		}
	}
	return r
}

// partialDefects returns what is wrong with an incomplete header. It completes the header to one that is right in everything that
// the first bytes do not show; what is wrong then must be detected already.
func partialDefects(t testing.TB, b []byte, fromClient, inMessage bool, room int64) []*Error {
	h := ws.Header{Fin: b[0]&0x80 != 0, Rsv: b[0] >> 4 & 7, OpCode: ws.OpCode(b[0] & 0x0f), Masked: fromClient}
	size := 2
	if len(b) > 1 {
		h.Masked = b[1]&0x80 != 0
		switch length := b[1] & 0x7f; {
		case length < 126:
			h.Length = int64(length)
		case length == 126:
			h.Length, size = 126, 4
		default:
			h.Length, size = 1<<16, 10
		}
	}
	if length := len(b); length >= size && size > 2 { // only the masking key is missing
		if length, err := lengthOf(b); err == nil {
			h.Length = length
		} else {
			return []*Error{ErrLengthEncoding, ErrLongControl, ErrNotMasked, ErrMasked, ErrNoMessage, ErrInMessage, ErrMessageSize, ErrReservedBits, ErrReservedOpcode, ErrFragmentedControl}
		}
	} else if size == 10 && room < h.Length && room >= 127 {
		room = h.Length // only the marker is known, with which the length may still fit
	}
	return judgeHeader(t, h, size+maskSize(h), fromClient, inMessage, room)
}

// lengthOf has gobwas decode the length of a header whose masking key is missing.
func lengthOf(b []byte) (int64, error) {
	h, err := ws.ReadHeader(bytes.NewReader(join(b, make([]byte, 4))))
	return h.Length, err
}

// seedStreams are what fuzzing starts from: valid streams, and one for each error.
func seedStreams() (client, server [][]byte) {
	long := bytes.Repeat([]byte("0123456789"), 20)
	client = [][]byte{
		{},
		masked(true, Text, "Hello"),
		masked(true, Text, ""),
		masked(true, Binary, string(long)),
		join(masked(false, Text, "音"), masked(true, Ping, "p"), masked(false, Continuation, "\xe5"), masked(true, Continuation, "\xa3\xb0")),
		join(masked(true, Pong, ""), masked(true, Binary, "\xff\xfe"), masked(true, Close, "\x03\xe8bye"), masked(true, Text, "late")),
		join(masked(true, Close, "\x03\xf4"), masked(true, Close, "\x03\xf5later"), masked(true, Close, "\x03\xf6")),
		join(masked(true, Close, "\x03"), masked(true, Close, "\x03\xed"), masked(true, Close, "\x03\xe8\xff")),
		join(masked(true, Text, "good"), masked(true, Text, "ab\xe3\x81")),
		join(masked(false, Text, "good\xed"), masked(true, Continuation, "\xa0\x80")),
		masked(true, Text, "\xf4\x90\x80\x80"),
		masked(true, Text, "0123456789abcdef\xc0\xaf"),
		join(masked(true, Text, "x"), masked(true, Continuation, "y")),
		join(masked(false, Text, "x"), masked(true, Binary, "y")),
		join(masked(false, Ping, "x")),
		join(masked(true, Text, "good"), []byte{0xc1, 0x81, 1, 2, 3, 4, 5}),
		masked(false, Text, "and so on"),
		masked(true, Text, "broken off")[:11],
		masked(true, Ping, "broken off")[:11],
		masked(true, Binary, string(long))[:5],
		{0x82, 0x7e},
		{0x82, 0xff, 0, 0},
		{0x83, 0x80, 0, 0, 0, 0},
		{0x89, 0xfe, 0, 126, 0, 0, 0, 0},
		{0x82, 0xfe, 0, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5},
		{0x82, 0xff, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3},
		{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0},
		{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1},
	}
	server = [][]byte{
		plain(true, Text, "Hello"),
		join(plain(false, Text, "\xff"), plain(true, Ping, "p"), plain(true, Continuation, "")),
		join(plain(true, Binary, string(long)), plain(true, Close, "\x03\xe9")),
		masked(true, Text, "masked"),
	}
	server = append(server, hostileStreams()...)
	return client, server
}

// FuzzScanner compares the scanner with gobwas/ws: they must find the same frames, counts and errors, and wherever the stream is cut
// into reads, the same bytes must be passed on.
func FuzzScanner(f *testing.F) {
	client, server := seedStreams()
	for _, b := range client {
		f.Add(b, true, uint16(0))
		f.Add(b, true, uint16(4))
		f.Add(b, false, uint16(0))
	}
	for _, b := range server {
		f.Add(b, false, uint16(0))
		f.Add(b, true, uint16(100))
	}
	f.Fuzz(func(t *testing.T, stream []byte, fromClient bool, limit uint16) {
		if len(stream) > 320 { // the time grows with the square of the length
			return
		}
		if !fromClient {
			limit = 0 // there is no limit for servers
		}
		want := decode(t, stream, fromClient, int64(limit))
		everySplit(stream, func(pieces [][]byte) {
			s := Scanner{limit: int64(limit), fromClient: fromClient}
			compare(t, want, &s, feed(t, &s, pieces...), pieces)
		})
		for _, c := range want.controls {
			if c.opcode == Close {
				compareClose(t, []byte(c.payload))
			}
		}
	})
}

// compare compares what the scanner found with the reference.
func compare(t *testing.T, want *reference, s *Scanner, got outcome, pieces [][]byte) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%d pieces, the first of %d bytes:", len(pieces), len(pieces[0]))
		t.Fatalf(format, args...)
	}
	if (got.err != nil) != want.bad() {
		fail("verdict %v, want one of %v", got.err, want.defects)
	}
	if got.err != nil && !slices.ContainsFunc(want.defects, func(e *Error) bool { return got.err == error(e) }) {
		fail("verdict %v, want one of %v", got.err, want.defects)
	}
	if !slices.Equal(got.controls, want.controls) {
		fail("control frames %v, want %v", got.controls, want.controls)
	}
	if !bytes.HasPrefix(got.passed, want.passed) {
		fail("passed on % x, want % x", got.passed, want.passed)
	}
	if s.Messages != want.messages {
		fail("%d messages, want %d", s.Messages, want.messages)
	}
	if !want.badText { // what came in earlier reads of a text that is bad later has been passed on
		if len(got.passed) != len(want.passed) {
			fail("passed on % x, want % x", got.passed, want.passed)
		}
		if s.Frames != want.frames || s.Bytes != want.bytes {
			fail("%d frames, %d bytes; want %d, %d", s.Frames, s.Bytes, want.frames, want.bytes)
		}
	}
	extra := len(got.passed) > len(want.passed)
	if extra && len(pieces) == 1 {
		fail("in one piece, bytes of the bad frame were passed on")
	}
	if atBoundary := !want.unfinished && !extra; s.AtFrameBoundary() != atBoundary {
		fail("AtFrameBoundary is %v", s.AtFrameBoundary())
	}
	if !want.bad() {
		if got.tail != want.tail {
			fail("%d bytes left, want %d", got.tail, want.tail)
		}
		if s.AtMessageBoundary() == want.inMessage {
			fail("AtMessageBoundary is %v", s.AtMessageBoundary())
		}
	}
	for _, b := range got.boundaries {
		if !slices.Contains(want.ends, b) {
			fail("boundary at %d, frames end at %v", b, want.ends)
		}
	}
	if n := len(want.ends); n > 0 && (len(got.boundaries) == 0 || got.boundaries[len(got.boundaries)-1] != want.ends[n-1]) {
		fail("boundaries %v, frames end at %v", got.boundaries, want.ends)
	}
}

// compareClose compares ParseClose with gobwas.
func compareClose(t *testing.T, payload []byte) {
	code, _, err := ParseClose(payload)
	if len(payload) < 2 { // gobwas leaves these to its caller
		return
	}
	gotCode, reason := ws.ParseCloseFrameData(payload)
	theirs := ws.CheckCloseFrameData(gotCode, reason)
	switch {
	case uint16(code) != uint16(gotCode):
		t.Fatalf("code %v, gobwas has %v", code, gotCode)
	case code == 1012 || code == 1013 || code == 1014:
		// IANA registered the code after the RFC, which gobwas does not know. Only the reason can be compared.
		if (err == nil) != utf8.ValidString(reason) {
			t.Fatalf("close %v %q: %v", code, reason, err)
		}
	case code >= 5000:
		if err != error(ErrCloseCode) { // gobwas accepts these, although they are in no range of section 7.4.2
			t.Fatalf("close %v: %v", code, err)
		}
	case (err == nil) != (theirs == nil):
		t.Fatalf("close %v %q: %v, gobwas says %v", code, reason, err, theirs)
	case err != nil && !slices.ContainsFunc(checkedBy[theirs], func(e *Error) bool { return err == error(e) }):
		t.Fatalf("close %v %q: %v, gobwas says %v", code, reason, err, theirs)
	}
}
