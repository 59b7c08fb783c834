package tlsrecord_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// fed is a transport with what was fed to it; then it has nothing to read.
type fed struct {
	pipe
	bytes []byte
	sent  []byte
}

type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

func (f *fed) Read(b []byte) (int, error) {
	if len(f.bytes) == 0 {
		return 0, nothing{}
	}
	n := copy(b, f.bytes)
	f.bytes = f.bytes[n:]
	return n, nil
}

func (f *fed) Write(b []byte) (int, error) { f.sent = append(f.sent, b...); return len(b), nil }
func (f *fed) SetDeadline(time.Time) error { return nil }

var _ net.Conn = &fed{}

// scripts are streams of records to begin with. Each step of a script is an operation, an argument, and perhaps more bytes.
var scripts = [][]byte{
	{0, 3, 'a', 'b', 'c', 1, 200, 6, 0, 2, 22, 5, 24, 0, 0, 1, 1, 3, 1, 0, 4, 'd', 'e', 'f', 'g', 4, 30, 0, 1, 'h'},
	{2, 22, 4, 24, 0, 0, 1, 2, 22, 1, 0, 3, 0, 0, 1, 'x', 2, 21, 2, 1, 0},
	{2, 22, 9, 4, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 1, 'x', 2, 20, 1, 1},
	{5, 5, 20, 3, 3, 0, 1, 0, 1, 'x', 1, 255},
	// After new keys, empty records, and an alert that means nothing: the end, an alert, an altered record, a header of a record that is too large, one of
	// another version, and a part of a record. Then padding.
	slices.Concat(between, []byte{2, 21, 2, 1, 0, 0, 1, 'x'}),
	slices.Concat(between, []byte{2, 21, 2, 2, 40}),
	slices.Concat(between, []byte{0, 3, 'a', 'b', 'c', 4, 255}),
	slices.Concat(between, []byte{5, 5, 23, 3, 3, 255, 255}),
	slices.Concat(between, []byte{5, 5, 23, 3, 1, 0, 40}),
	slices.Concat(between, []byte{5, 7, 23, 3, 3, 0, 40, 1, 2}),
	{0, 1, 'a', 2, 0, 4, 'b', 23, 0, 0, 4, 128},
}

var between = []byte{0, 2, 'a', 'b', 2, 23, 0, 2, 21, 2, 1, 90, 3, 1, 0, 1, 'c', 3, 0, 0, 1, 'd'}

// stream is what a script makes of the records of a peer.
type stream struct {
	bytes    []byte
	cuts     []int // it arrives in pieces that end there
	messages bool  // there are handshake messages
}

// run runs a script by a peer's end of a kind of connection.
func run(k kind, peer *tlsrecord.Conn, script []byte) (s stream) {
	take := func(n int) []byte {
		n = min(n, len(script))
		part := script[:n]
		script = script[n:]
		return part
	}
	for len(script) >= 2 && len(s.bytes) < 1<<20 {
		operation, argument := script[0]%6, int(script[1])
		script = script[2:]
		switch operation {
		case 0: // data
			s.bytes = peer.Seal(s.bytes, take(argument))
		case 1: // much data
			s.bytes = peer.Seal(s.bytes, make([]byte, argument<<8))
		case 2: // any content
			size := 0
			if len(script) > 0 {
				size = int(take(1)[0])
			}
			s.bytes = peer.SealAs(s.bytes, byte(argument), take(size))
			s.messages = s.messages || argument == 22
		case 3: // new keys
			if k.version == tls.VersionTLS13 {
				s.messages = true
				s.bytes = peer.SealAs(s.bytes, 22, []byte{24, 0, 0, 1, byte(argument & 1)})
				peer.UpdateOut()
			}
		case 4: // an altered byte
			if len(s.bytes) > 0 {
				s.bytes[len(s.bytes)*argument/256] ^= 1
			}
		case 5: // raw bytes
			s.bytes = append(s.bytes, take(argument)...)
		}
		s.cuts = append(s.cuts, len(s.bytes)-argument%(1+len(s.bytes)))
	}
	return s
}

// outcome is what came of a stream: the data, and what has ended it, nil for nothing.
type outcome struct {
	data  []byte
	err   error
	early bool // a record of an unknown type has ended it
}

// byCrypto returns what crypto/tls, in the state of the connection, makes of a stream.
func (c *connection) byCrypto(sent []byte) (o outcome) {
	c.line.Conn = &fed{bytes: bytes.Clone(sent)}
	buf := make([]byte, 32<<10)
	for o.err == nil {
		var n int
		n, o.err = c.original.Read(buf)
		o.data = append(o.data, buf[:n]...)
	}
	if errors.Is(o.err, error(nothing{})) {
		o.err = nil
	}
	return o
}

// byRecords returns what records makes of a stream that arrives in pieces.
func byRecords(t *testing.T, records *tlsrecord.Conn, sent []byte, cuts ...int) (o outcome) {
	var waiting []byte
	at := 0
	for _, cut := range append(cuts, len(sent)) {
		if cut <= at || o.err != nil {
			continue
		}
		waiting = append(waiting, sent[at:cut]...)
		at = cut
		var from, to, used int
		from, to, used, o.err = records.Open(waiting)
		if from > to || to > used || used > len(waiting) {
			t.Fatalf("%d, %d, %d of %d", from, to, used, len(waiting))
		}
		o.data = append(o.data, waiting[from:to]...)
		o.early = o.err != nil && used < len(waiting) && (waiting[used] < 21 || waiting[used] > 23)
		waiting = bytes.Clone(waiting[used:])
		if o.err == nil && len(waiting) >= tlsrecord.MaxRecord {
			t.Fatalf("%d bytes are kept", len(waiting))
		}
	}
	return o
}

// agree reports whether both have made the same of a stream, but for what package tlsrecord does otherwise.
func agree(k kind, s stream, got, want outcome) bool {
	switch {
	case stricter(k, s.messages || got.early, got.err) && bytes.HasPrefix(want.data, got.data):
	case laxer(k, want.err) && bytes.HasPrefix(got.data, want.data):
	case !bytes.Equal(got.data, want.data) || (got.err == nil) != (want.err == nil) || (got.err == io.EOF) != (want.err == io.EOF):
		return false
	}
	return true
}

// FuzzOpen sends the same records, whole or altered, to package tlsrecord, in pieces, and to crypto/tls in the same state. Both must
// receive the same, and end for the same reason. Where this package is stricter, it may end earlier.
func FuzzOpen(f *testing.F) {
	for i := range byte(12) {
		for _, script := range scripts {
			f.Add(i, script)
		}
	}
	all := kinds()
	type configs struct{ server, client *tls.Config }
	prepared := make([]configs, len(all))
	for i, k := range all {
		prepared[i].server, prepared[i].client = ends(f, k)
	}
	f.Fuzz(func(t *testing.T, which byte, script []byte) {
		k := all[int(which)%len(all)]
		c := connect(t, k, prepared[int(which)%len(all)].server, prepared[int(which)%len(all)].client)
		s := run(k, c.records.Mirror(), script)
		want, got := c.byCrypto(s.bytes), byRecords(t, c.records, s.bytes, s.cuts...)
		if !agree(k, s, got, want) {
			t.Fatalf("%v: received %d bytes, %v; crypto/tls %d bytes, %v", k, len(got.data), got.err, len(want.data), want.err)
		}
		if got.err != nil {
			return
		}
		// And the other way: what crypto/tls has answered does not reach the peer, so that its keys are not ahead.
		message := append([]byte("and back"), want.data...)
		c.toPeer.take()
		c.toPeer.write(c.records.Seal(nil, message))
		back := make([]byte, len(message))
		if _, err := io.ReadFull(c.peer, back); err != nil || !bytes.Equal(back, message) {
			t.Fatalf("%v: the peer receives something else: %v", k, err)
		}
	})
}

// However a stream is split, it gives the same data and the same end as with crypto/tls: each split in two, a hundred of a long stream, and each split of
// a short one in three.
func TestEverySplit(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		for i, script := range scripts {
			c := connect(t, k, server, client)
			records := c.records.Mirror()
			s := run(k, c.records.Mirror(), script)
			want := c.byCrypto(s.bytes)
			whole := byRecords(t, records.Mirror(), s.bytes)
			local := want.err != nil && strings.HasPrefix(want.err.Error(), "local error: ")
			if !agree(k, s, whole, want) || local && !stricter(k, s.messages || whole.early, whole.err) && whole.err.Error() != want.err.Error() {
				t.Errorf("%v: script %d: received %q, %v; crypto/tls %q, %v", k, i, whole.data, whole.err, want.data, want.err)
			}
			check := func(cuts ...int) {
				got := byRecords(t, records.Mirror(), s.bytes, cuts...)
				if !bytes.Equal(got.data, whole.data) || !errors.Is(got.err, whole.err) {
					t.Fatalf("%v: script %d: split at %v: received %q, %v; want %q, %v", k, i, cuts, got.data, got.err, whole.data, whole.err)
				}
			}
			step := 1
			if len(s.bytes) > 1000 {
				step = len(s.bytes) / 100
			}
			for first := 1; first < len(s.bytes); first += step {
				check(first)
				for second := first + 1; second < len(s.bytes) && len(s.bytes) <= 100; second++ {
					check(first, second)
				}
			}
		}
	}
}

// stricter reports whether err may end a connection that crypto/tls would keep. With TLS 1.3, crypto/tls ignores change_cipher_spec even
// after the handshake, and counts messages without data, not the records that carry their pieces. And it looks at a message only when
// that is complete, as at a record of an unknown type.
func stricter(k kind, incomplete bool, err error) bool {
	var alert tls.AlertError
	if !errors.As(err, &alert) {
		return false
	}
	return incomplete && (alert == 10 || alert == 50 || alert == 100) || k.version == tls.VersionTLS13 && alert == 10
}

// laxer reports whether a connection may continue that err ends for crypto/tls: the content of a session ticket is not looked at.
func laxer(k kind, err error) bool {
	return k.version == tls.VersionTLS13 && k.client && err != nil && err.Error() == "local error: tls: error decoding message"
}
