package frame

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestScannerPassesValidStreams(t *testing.T) {
	type counts struct{ frames, messages, bytes uint64 }
	long := strings.Repeat("0123456789abcdef", 300)
	tests := []struct {
		name       string
		stream     []byte
		server     bool
		passed     []byte // nil: all of the stream
		boundaries []int
		controls   []control
		counts     counts
	}{
		{name: "nothing", passed: []byte{}},
		{name: "text", stream: masked(true, Text, "Hello"), boundaries: []int{11}, counts: counts{1, 1, 5}},
		{name: "empty text", stream: masked(true, Text, ""), boundaries: []int{6}, counts: counts{1, 1, 0}},
		{name: "from a server", stream: plain(true, Binary, "Hello"), server: true, boundaries: []int{7}, counts: counts{1, 1, 5}},
		{
			name: "16-bit length", stream: masked(true, Binary, long), boundaries: []int{8 + 4800}, counts: counts{1, 1, 4800},
		},
		{
			name:   "two messages",
			stream: join(masked(true, Text, "ab"), masked(true, Binary, "\xff")), boundaries: []int{8, 15}, counts: counts{2, 2, 3},
		},
		{
			name:       "fragments",
			stream:     join(masked(false, Text, "ab"), masked(false, Continuation, ""), masked(true, Continuation, "cd")),
			boundaries: []int{8, 14, 22}, counts: counts{3, 1, 4},
		},
		{
			name:       "a character split over fragments",
			stream:     join(masked(false, Text, "a\xe3"), masked(false, Continuation, "\x81"), masked(true, Continuation, "\x82b")),
			boundaries: []int{8, 15, 23}, counts: counts{3, 1, 5},
		},
		{
			name: "control frames between fragments",
			stream: join(masked(false, Text, "ab\xf0\x9f"), masked(true, Ping, "are you there?"), masked(true, Pong, ""),
				masked(true, Continuation, "\x98\x80")),
			passed:     join(masked(false, Text, "ab\xf0\x9f"), masked(true, Continuation, "\x98\x80")),
			boundaries: []int{10, 18},
			controls:   []control{{10, Ping, "are you there?"}, {10, Pong, ""}},
			counts:     counts{2, 1, 6},
		},
		{
			name:     "control frames first and last",
			stream:   join(masked(true, Pong, "x"), masked(true, Text, "ab"), masked(true, Close, "\x03\xe8bye")),
			passed:   masked(true, Text, "ab"),
			controls: []control{{0, Pong, "x"}, {8, Close, "\x03\xe8bye"}}, boundaries: []int{8}, counts: counts{1, 1, 2},
		},
		{
			name:     "the longest control frame",
			stream:   masked(true, Ping, long[:MaxControlPayload]),
			passed:   []byte{},
			controls: []control{{0, Ping, long[:MaxControlPayload]}},
		},
		{
			name:     "control frames of a server",
			stream:   join(plain(true, Ping, "p"), plain(false, Binary, "ab"), plain(true, Close, ""), plain(true, Continuation, "")),
			server:   true,
			passed:   join(plain(false, Binary, "ab"), plain(true, Continuation, "")),
			controls: []control{{0, Ping, "p"}, {4, Close, ""}}, boundaries: []int{4, 6}, counts: counts{2, 1, 2},
		},
		{name: "bad text of a server is trusted", stream: plain(true, Text, "\xff\xfe"), server: true, boundaries: []int{4}, counts: counts{1, 1, 2}},
		{
			name: "bad text in a binary message", stream: join(masked(false, Binary, "\xff"), masked(true, Continuation, "\xe3")),
			boundaries: []int{7, 14}, counts: counts{2, 1, 2},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.passed == nil {
				test.passed = test.stream
			}
			everySplit(test.stream, func(pieces [][]byte) {
				s := NewClientScanner(0)
				if test.server {
					s = NewServerScanner()
				}
				o := feed(t, &s, pieces...)
				if o.err != nil || o.tail != 0 {
					t.Fatalf("%d pieces: %v, %d bytes left", len(pieces), o.err, o.tail)
				}
				if !bytes.Equal(o.passed, test.passed) {
					t.Fatalf("passed on %q, want %q", o.passed, test.passed)
				}
				if !slices.Equal(o.controls, test.controls) {
					t.Fatalf("control frames %v, want %v", o.controls, test.controls)
				}
				if got := (counts{s.Frames, s.Messages, s.Bytes}); got != test.counts {
					t.Fatalf("counts %+v, want %+v", got, test.counts)
				}
				// Of several frames that end in one run only the last is reported.
				for _, b := range o.boundaries {
					if !slices.Contains(test.boundaries, b) {
						t.Fatalf("boundary at %d, want one of %v", b, test.boundaries)
					}
				}
				if n := len(test.boundaries); n > 0 && o.boundaries[len(o.boundaries)-1] != test.boundaries[n-1] {
					t.Fatalf("boundaries %v do not end with that of the last frame, %v", o.boundaries, test.boundaries)
				}
				if !s.AtFrameBoundary() || !s.AtMessageBoundary() {
					t.Fatal("not at a boundary after whole messages")
				}
			})
		})
	}
}

func TestScannerRefuses(t *testing.T) {
	const limit = 200
	long := strings.Repeat("x", limit)
	good := masked(true, Text, "good")
	tests := []struct {
		name   string
		before []byte // valid, to be passed on whatever follows
		bad    []byte // the offending frame, or enough of it to detect the error
		server bool
		want   error
	}{
		{name: "reserved bits", before: good, bad: []byte{0xc1, 0x80}, want: ErrReservedBits},
		{name: "reserved opcode", before: good, bad: []byte{0x83, 0x80}, want: ErrReservedOpcode},
		{name: "fragmented ping", before: good, bad: masked(false, Ping, "x"), want: ErrFragmentedControl},
		{name: "long ping", before: good, bad: []byte{0x89, 0xfe}, want: ErrLongControl},
		{name: "length encoding", before: good, bad: []byte{0x82, 0xfe, 0, 5}, want: ErrLengthEncoding},
		{name: "length over 63 bits", before: good, bad: []byte{0x82, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0}, want: nil},
		{name: "client frame not masked", before: good, bad: plain(true, Text, "x"), want: ErrNotMasked},
		{name: "client ping not masked", before: good, bad: plain(true, Ping, ""), want: ErrNotMasked},
		{name: "server frame masked", before: plain(true, Text, "x"), bad: masked(true, Text, "x"), server: true, want: ErrMasked},
		{name: "server close masked", before: plain(true, Text, "x"), bad: masked(true, Close, ""), server: true, want: ErrMasked},
		{name: "continuation at the start", bad: masked(true, Continuation, "x"), want: ErrNoMessage},
		{name: "continuation after a message", before: good, bad: masked(true, Continuation, "x"), want: ErrNoMessage},
		{
			name: "continuation after the last one", before: join(masked(false, Text, "x"), masked(true, Continuation, "y")),
			bad: masked(true, Continuation, "z"), want: ErrNoMessage,
		},
		{name: "text in text", before: masked(false, Text, "x"), bad: masked(true, Text, "y"), want: ErrInMessage},
		{name: "binary in text", before: masked(false, Text, "x"), bad: masked(false, Binary, "y"), want: ErrInMessage},
		{name: "server: text in binary", server: true, before: plain(false, Binary, "x"), bad: plain(true, Text, "y"), want: ErrInMessage},
		{name: "server: continuation", server: true, before: plain(true, Binary, "x"), bad: plain(true, Continuation, "y"), want: ErrNoMessage},
		{name: "message size", before: masked(true, Binary, long), bad: masked(true, Binary, long+"x"), want: ErrMessageSize},
		{
			name: "message size over fragments", before: join(masked(false, Binary, long[:150]), masked(false, Continuation, long[:50])),
			bad: masked(true, Continuation, "x"), want: ErrMessageSize,
		},
		{
			name: "message size with the largest length", before: masked(false, Binary, long),
			bad: []byte{0x80, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, want: ErrMessageSize,
		},
		{name: "incomplete text", before: good, bad: masked(true, Text, "ab\xe3\x81"), want: ErrText},
		{
			name: "incomplete text in the last fragment", before: masked(false, Text, "ab"),
			bad: masked(true, Continuation, "c\xf0\x9f\x98"), want: ErrText,
		},
		{name: "incomplete text, then an empty fragment", before: masked(false, Text, "ab\xc3"), bad: masked(true, Continuation, ""), want: ErrText},
		{name: "character broken by the next fragment", before: masked(false, Text, "ab\xe3"), bad: masked(true, Continuation, "\x41"), want: ErrText},
		{name: "surrogates", before: good, bad: masked(false, Text, "\xed\xa0"), want: ErrText},
		{name: "overlong", before: good, bad: masked(false, Text, "\xc0"), want: ErrText},
		{name: "beyond U+10FFFF", before: good, bad: masked(false, Text, "\xf4\x90"), want: ErrText},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			newScanner := func() Scanner {
				if test.server {
					return NewServerScanner()
				}
				if test.want == nil { // a limit would be an earlier error
					return NewClientScanner(0)
				}
				return NewClientScanner(limit)
			}
			if test.want == nil {
				test.want = ErrLengthEncoding
			}

			// In one piece nothing of the bad frame may reach the receiver.
			s := newScanner()
			o := feed(t, &s, join(test.before, test.bad))
			if !errors.Is(o.err, test.want) {
				t.Fatalf("%v, want %v", o.err, test.want)
			}
			if !bytes.Equal(o.passed, test.before) {
				t.Errorf("passed on %q, want %q", o.passed, test.before)
			}
			if !s.AtFrameBoundary() {
				t.Error("not at a frame boundary, though no byte of the bad frame was passed on")
			}

			everySplit(join(test.before, test.bad), func(pieces [][]byte) {
				s := newScanner()
				o := feed(t, &s, pieces...)
				if !errors.Is(o.err, test.want) {
					t.Fatalf("%d pieces, the first of %d bytes: %v, want %v", len(pieces), len(pieces[0]), o.err, test.want)
				}
				if !bytes.HasPrefix(o.passed, test.before) {
					t.Fatalf("passed on %q, want all of %q", o.passed, test.before)
				}
				// If the beginning of a bad frame was passed on, the scanner must not be at a frame boundary.
				if whole := len(o.passed) == len(test.before); s.AtFrameBoundary() != whole {
					t.Fatalf("passed on %d bytes of the bad frame, but AtFrameBoundary is %v", len(o.passed)-len(test.before), s.AtFrameBoundary())
				}
				if !errors.Is(test.want, ErrText) && len(o.passed) != len(test.before) {
					t.Fatal("passed on a part of a frame with a bad header")
				}
			})
		})
	}
}

// The announced length counts, not what has arrived: a message that is too large is refused at its header.
func TestMessageSizeIsJudgedAtTheHeader(t *testing.T) {
	header := AppendHeader(nil, Header{Fin: true, Opcode: Binary, Masked: true, Length: 1 << 20})
	s := NewClientScanner(1<<20 - 1)
	if o := feed(t, &s, header[:10]); !errors.Is(o.err, ErrMessageSize) {
		t.Errorf("%v, want %v", o.err, ErrMessageSize)
	}
	s = NewClientScanner(1 << 20)
	if o := feed(t, &s, header); o.err != nil {
		t.Errorf("a message as large as the limit: %v", o.err)
	}
	// The limit is for each message: the next one starts at 0.
	s = NewClientScanner(4)
	for range 3 {
		if o := feed(t, &s, join(masked(false, Text, "ab"), masked(true, Continuation, "cd"))); o.err != nil {
			t.Fatal(o.err)
		}
	}
}

// The mask bit is checked as soon as it arrives, not only when the rest of a long header, or of a control frame, has arrived.
func TestMaskBitIsJudgedAtOnce(t *testing.T) {
	for _, wire := range [][]byte{{0x82, 0x7e}, {0x82, 0x7f, 0, 0}, {0x89, 0x05}} {
		s := NewClientScanner(0)
		if o := feed(t, &s, wire); !errors.Is(o.err, ErrNotMasked) {
			t.Errorf("client, % x: %v, want %v", wire, o.err, ErrNotMasked)
		}
		wire = bytes.Clone(wire)
		wire[1] |= 0x80
		s = NewServerScanner()
		if o := feed(t, &s, wire); !errors.Is(o.err, ErrMasked) {
			t.Errorf("server, % x: %v, want %v", wire, o.err, ErrMasked)
		}
	}
	s := NewClientScanner(100) // at least 126 bytes are announced
	if o := feed(t, &s, []byte{0x82, 0xfe}); !errors.Is(o.err, ErrMessageSize) {
		t.Errorf("%v, want %v", o.err, ErrMessageSize)
	}
}

// A control frame in the middle of a message is not part of it.
func TestControlFramesDoNotCountForTheLimit(t *testing.T) {
	s := NewClientScanner(2)
	if o := feed(t, &s, join(masked(false, Text, "a"), masked(true, Ping, "long enough"), masked(true, Continuation, "b"))); o.err != nil {
		t.Error(o.err)
	}
	if s.Bytes != 2 || s.Frames != 2 {
		t.Errorf("counted %d bytes in %d frames of data", s.Bytes, s.Frames)
	}
}

func TestBoundaries(t *testing.T) {
	first, second := masked(false, Text, "abc"), masked(true, Continuation, "defg")
	stream := join(first, second)
	tests := []struct {
		name         string
		n            int // bytes in the only call
		run          Run
		frame, whole bool
	}{
		{"nothing", 0, Run{Boundary: -1}, true, true},
		{"a part of a header", 5, Run{Boundary: -1}, true, true},
		{"a header", 6, Run{Data: 6, Boundary: -1, Consumed: 6}, false, false},
		{"a part of a frame", 8, Run{Data: 8, Boundary: -1, Consumed: 8}, false, false},
		{"a frame", 9, Run{Data: 9, Boundary: 9, Consumed: 9}, true, false},
		{"a frame and a part of a header", 13, Run{Data: 9, Boundary: 9, Consumed: 9}, true, false},
		{"a frame and a part of the next", 17, Run{Data: 17, Boundary: 9, Consumed: 17}, false, false},
		{"two frames", 19, Run{Data: 19, Boundary: 19, Consumed: 19}, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := NewClientScanner(0)
			run, err := s.Next(bytes.Clone(stream[:test.n]))
			if err != nil || run.Data != test.run.Data || run.Boundary != test.run.Boundary || run.Consumed != test.run.Consumed || run.HasControl() {
				t.Errorf("%+v, %v; want %+v", run, err, test.run)
			}
			if s.AtFrameBoundary() != test.frame || s.AtMessageBoundary() != test.whole {
				t.Errorf("at frame boundary: %v, at message boundary: %v; want %v, %v", s.AtFrameBoundary(), s.AtMessageBoundary(), test.frame, test.whole)
			}
		})
	}
}

// A frame that ends where a call ends is reported by that call, and not again by the next, which may come much later.
func TestBoundaryIsNotReportedAgain(t *testing.T) {
	s := NewClientScanner(0)
	if o := feed(t, &s, masked(true, Text, "abc")); len(o.boundaries) != 1 {
		t.Fatalf("boundaries %v", o.boundaries)
	}
	run, err := s.Next(masked(true, Ping, ""))
	if err != nil || run.Boundary != -1 || !run.HasControl() || run.Data != 0 {
		t.Errorf("%+v, %v", run, err)
	}
}

// A control frame is returned whole, and the data in front of it without waiting for its end.
func TestIncompleteControlFrameWaits(t *testing.T) {
	data, ping := masked(true, Text, "abc"), masked(true, Ping, "0123456789")
	for n := range len(ping) {
		s := NewClientScanner(0)
		run, err := s.Next(join(data, ping[:n]))
		if err != nil || run.HasControl() || run.Data != len(data) || run.Consumed != len(data) {
			t.Fatalf("%d bytes of the ping: %+v, %v", n, run, err)
		}
		b := bytes.Clone(ping)
		run, err = s.Next(b)
		if err != nil || !run.HasControl() || run.Control != Ping || string(run.Payload) != "0123456789" || run.Consumed != len(ping) {
			t.Fatalf("then all of it: %+v, %v", run, err)
		}
	}
}

// The bytes of data frames stay as the client has masked them.
func TestDataIsLeftMasked(t *testing.T) {
	stream := join(masked(true, Text, "some text"), masked(true, Binary, "\x00\x01\x02"))
	b := bytes.Clone(stream)
	s := NewClientScanner(0)
	if _, err := s.Next(b); err != nil || !bytes.Equal(b, stream) {
		t.Errorf("%v; the bytes are % x, were % x", err, b, stream)
	}
}

// What was not passed on is not counted, wherever the reads were cut.
func TestCountsAfterAnError(t *testing.T) {
	stream := join(masked(true, Text, "good"), masked(true, Text, "ab\xe3\x81"))
	everySplit(stream, func(pieces [][]byte) {
		s := NewClientScanner(0)
		o := feed(t, &s, pieces...)
		if !errors.Is(o.err, ErrText) {
			t.Fatal(o.err)
		}
		passed := max(0, len(o.passed)-len(masked(true, Text, "good"))-6) // payload of the second frame that went out
		if s.Messages != 1 || s.Bytes != uint64(4+passed) {
			t.Fatalf("first piece of %d bytes: %d messages, %d bytes, but %d payload bytes were passed on", len(pieces[0]), s.Messages, s.Bytes, 4+passed)
		}
	})
}

// A hostile client must not cost more than an honest one.
func TestErrorsAreNotAllocated(t *testing.T) {
	bad := masked(true, Text, "\xff")
	if n := testing.AllocsPerRun(100, func() {
		s := NewClientScanner(0)
		if _, err := s.Next(bad); err == nil {
			t.Fatal("no error")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
