package tlsrecord_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
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

// FuzzOpen sends the same records, whole or altered, to package tlsrecord, in pieces, and to crypto/tls in the same state. Both must
// receive the same, and end for the same reason. Where this package is stricter, it may end earlier.
//
// Each step of a script is an operation, an argument, and perhaps more bytes.
func FuzzOpen(f *testing.F) {
	for i := range byte(12) {
		f.Add(i, []byte{0, 3, 'a', 'b', 'c', 1, 200, 6, 0, 2, 22, 5, 24, 0, 0, 1, 1, 3, 1, 0, 4, 'd', 'e', 'f', 'g', 4, 30, 0, 1, 'h'})
		f.Add(i, []byte{2, 22, 4, 24, 0, 0, 1, 2, 22, 1, 0, 3, 0, 0, 1, 'x', 2, 21, 2, 1, 0})
		f.Add(i, []byte{2, 22, 9, 4, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 1, 'x', 2, 20, 1, 1})
		f.Add(i, []byte{5, 5, 20, 3, 3, 0, 1, 0, 1, 'x', 1, 255})
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
		mirror := c.records.Mirror()
		var stream []byte
		var cuts []int // the stream arrives in pieces that end there
		messages, early := false, false
		take := func(n int) []byte {
			n = min(n, len(script))
			part := script[:n]
			script = script[n:]
			return part
		}
		for len(script) >= 2 && len(stream) < 1<<20 {
			operation, argument := script[0]%6, int(script[1])
			script = script[2:]
			switch operation {
			case 0: // data
				stream = mirror.Seal(stream, take(argument))
			case 1: // much data
				stream = mirror.Seal(stream, make([]byte, argument<<8))
			case 2: // any content
				size := 0
				if len(script) > 0 {
					size = int(take(1)[0])
				}
				stream = mirror.SealAs(stream, byte(argument), take(size))
				messages = messages || argument == 22
			case 3: // new keys
				if k.version == tls.VersionTLS13 {
					messages = true
					stream = mirror.SealAs(stream, 22, []byte{24, 0, 0, 1, byte(argument & 1)})
					mirror.UpdateOut()
				}
			case 4: // an altered byte
				if len(stream) > 0 {
					stream[len(stream)*argument/256] ^= 1
				}
			case 5: // raw bytes
				stream = append(stream, take(argument)...)
			}
			cuts = append(cuts, len(stream)-argument%(1+len(stream)))
		}
		transport := &fed{bytes: bytes.Clone(stream)}
		c.line.Conn = transport
		var want []byte
		var wantErr error
		buf := make([]byte, 32<<10)
		for wantErr == nil {
			var n int
			n, wantErr = c.original.Read(buf)
			want = append(want, buf[:n]...)
		}
		if errors.Is(wantErr, error(nothing{})) {
			wantErr = nil
		}
		var got, waiting []byte
		var err error
		at := 0
		for _, cut := range append(cuts, len(stream)) {
			if cut <= at || err != nil {
				continue
			}
			waiting = append(waiting, stream[at:cut]...)
			at = cut
			var from, to, used int
			from, to, used, err = c.records.Open(waiting)
			if from > to || to > used || used > len(waiting) {
				t.Fatalf("%d, %d, %d of %d", from, to, used, len(waiting))
			}
			got = append(got, waiting[from:to]...)
			if err != nil && used < len(waiting) && (waiting[used] < 21 || waiting[used] > 23) {
				early = true
			}
			waiting = bytes.Clone(waiting[used:])
			if err == nil && len(waiting) >= tlsrecord.MaxRecord {
				t.Fatalf("%d bytes are kept", len(waiting))
			}
		}
		switch {
		case stricter(k, messages || early, err) && bytes.HasPrefix(want, got):
		case laxer(k, wantErr) && bytes.HasPrefix(got, want):
		case !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) || (err == io.EOF) != (wantErr == io.EOF):
			t.Fatalf("%v: received %d bytes, %v; crypto/tls %d bytes, %v", k, len(got), err, len(want), wantErr)
		}
		if err != nil {
			return
		}
		// And the other way: what crypto/tls has answered does not reach the peer, so that its keys are not ahead.
		message := append([]byte("and back"), want...)
		c.toPeer.take()
		c.toPeer.write(c.records.Seal(nil, message))
		back := make([]byte, len(message))
		if _, err := io.ReadFull(c.peer, back); err != nil || !bytes.Equal(back, message) {
			t.Fatalf("%v: the peer receives something else: %v", k, err)
		}
	})
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
