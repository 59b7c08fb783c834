package loop

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// FuzzTLS has a peer write any records of TLS 1.3, cut anywhere: data, KeyUpdates, ends, alerts, messages that make no sense, and garbage.
// The handler gets the data in their order, all of them unless the peer has broken the protocol, then the end, once, and nothing after it.
func FuzzTLS(f *testing.F) {
	f.Add([]byte("\x00\x05\x02\x03\x00\xff\x02\x01"))                 // data in pieces
	f.Add([]byte("\x01\x01\x00\x10\x01\x00\x02\x09\x00\x07\x01\x01")) // KeyUpdates
	f.Add([]byte("\x00\x05\x04\x00\x00\x05\x02\x40\x01\x01"))         // data and a KeyUpdate behind close_notify
	f.Add([]byte("\x00\x05\x03\x11\x00\x05"))                         // garbage
	f.Add([]byte("\x00\x05\x05\x01\x00\x05"))                         // a client's hello after the handshake: renegotiation
	f.Add([]byte("\x00\x05\x05\x18\x00\x05\x07\x5a\x00\x05"))         // a KeyUpdate of no length; user_canceled
	f.Add(bytes.Repeat([]byte("\x06\x00"), 40))                       // empty records
	f.Add(append(bytes.Repeat([]byte("\x01\x01"), 20), "\x00\x05"...))
	f.Add([]byte("\x08\x00\x00\xff\x02\x20\x08\x01\x00\xff\x08\x00\x04\x00\x02\x00\x08\x01")) // paused and resumed
	f.Add([]byte("\x80\x01\x01\x00\x10\x01\x00\x02\x09\x00\x07\x01\x01"))                     // by crypto/tls
	g := group(f, 1)
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 400 {
			return
		}
		byCrypto := len(steps) > 0 && steps[0] >= 128
		if byCrypto {
			steps = steps[1:]
		}
		near, far, ours, _ := rawFarEnd(t, byCrypto)
		defer far.Close()
		h := collect()
		c := add(t, g.Pick(), near, h, nil)
		var want, pending []byte
		broken, closed, idle := false, false, 0
		send := func(b []byte) {
			_, err := far.Write(b)
			broken = broken || err != nil
		}
		for ; len(steps) >= 2; steps = steps[2:] {
			n := int(steps[1])
			switch steps[0] {
			case 0: // data
				text := strings.Repeat(string(rune('a'+n%26)), n%200+1)
				pending = append(pending, ours.Record(dataRecord, text)...)
				if !closed {
					want = append(want, text...)
				}
				idle = 0
			case 1: // KeyUpdate; n says whether it asks for an answer
				pending = append(pending, ours.Record(handshakeRecord, []string{update, updateAndAnswer}[n%2])...)
				ours = ours.Updated()
				idle++
			case 2: // send what was written, in two pieces
				at := len(pending) * n / 255
				send(pending[:at])
				settle(t, c.Loop())
				send(pending[at:])
				pending = pending[:0]
			case 3: // garbage
				pending = append(pending, bytes.Repeat([]byte{byte(n), 3}, n/2+3)...)
				broken = true
			case 4: // close_notify
				pending = append(pending, ours.Record(21, "\x01\x00")...)
				closed = true
			case 5: // a message of the handshake
				pending = append(pending, ours.Record(handshakeRecord, string(rune(n%128))+"\x00\x00\x01x")...)
				broken = true
			case 6: // nothing
				pending = append(pending, ours.Record(dataRecord, "")...)
				idle++
			case 7: // an alert
				pending = append(pending, ours.Record(21, string([]byte{1, byte(n)}))...)
				broken = true
			case 8: // pause or resume
				on(t, c, func() {
					if n%2 == 0 {
						c.Pause()
					} else {
						c.Resume()
					}
				})
			}
			broken = broken || idle > 16 // crypto/tls allows this many records in a row without data
		}
		send(pending)
		if half, ok := far.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		on(t, c, c.Resume)
		wstest.Receive(t, h.done, "the end")
		on(t, c, func() {
			if !bytes.HasPrefix(want, h.bytes) || !broken && len(h.bytes) != len(want) {
				t.Errorf("received %d bytes of %d, broken %v", len(h.bytes), len(want), broken)
			}
			if len(h.errs) != 1 || h.errs[0] == nil || closed && !broken && h.errs[0] != io.EOF {
				t.Errorf("ended with %v", h.errs)
			}
			c.Close()
		})
	})
}

// A peer that asks for new keys again and again, and reads no answer, is not kept answers for.
func TestKeyUpdateFlood(t *testing.T) {
	if portable {
		t.Skip("its reading goroutine waits until an answer is sent")
	}
	for _, byCrypto := range []bool{false, true} {
		near, far, ours, _ := rawFarEnd(t, byCrypto)
		h := collect()
		c := add(t, group(t, 1).Pick(), near, h, nil)
		on(t, c, func() {
			shrinkSendBuffer(t, c)
			for range 1 << 10 { // more than the kernel ever takes, so that no answer leaves
				c.Write(make([]byte, 16<<10))
			}
		})
		most, ended, filled := 0, false, 0
		on(t, c, func() { filled = c.Pending() })
		for sent := 0; !ended && sent < 20_000; sent++ {
			records := ours.Record(handshakeRecord, updateAndAnswer)
			ours = ours.Updated()
			if _, err := far.Write(append(records, ours.Record(dataRecord, "x")...)); err != nil {
				break
			}
			if sent%50 == 0 {
				on(t, c, func() { most, ended = max(most, c.Pending()), len(h.errs) > 0 })
			}
		}
		if most -= filled; most > 2*maxOwed {
			t.Errorf("%d bytes of answers were kept", most)
		}
		if byCrypto {
			wstest.Receive(t, h.done, "the end of the connection")
			on(t, c, func() {
				if h.errs[0] != errUpdates {
					t.Errorf("ended with %v", h.errs)
				}
			})
		}
		on(t, c, c.Close)
	}
}
