//go:build linux && !portableloop

package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

// If the socket does not take close_notify at once, the FIN is sent after it.
func TestTLSCloseNotifyIsKept(t *testing.T) {
	near, far := securedBy(tls.VersionTLS13)(t)
	c := add(t, group(t, 1).Pick(), near, &script{}, nil)
	sent := randomBytes(16<<20, 4)
	on(t, c, func() {
		c.Write(sent)
		if c.Pending() == 0 {
			t.Error("the socket has taken everything")
		}
		c.halfClose = true
		c.shutdownWrite() // as if the socket had become full with the very last byte
	})
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, or others: %v", len(got), err)
	}
}

// A KeyUpdate that has arrived before the loop takes the connection over is answered by the loop.
func TestKeyUpdateAtHandOver(t *testing.T) {
	near, far, ours, theirs := rawFarEnd(t, false)
	_, _ = far.Write(append(ours.Record(dataRecord, "ab"), ours.Record(handshakeRecord, updateAndAnswer)...))
	first := make([]byte, 1)
	if _, err := io.ReadFull(near, first); err != nil {
		t.Fatal(err)
	}
	add(t, group(t, 1).Pick(), near, echoing(), first)
	theirs.Expect(far, handshakeRecord, update)
	theirs = theirs.Updated()
	theirs.Expect(far, dataRecord, "ab")
	_, _ = far.Write(ours.Updated().Record(dataRecord, "cd"))
	theirs.Expect(far, dataRecord, "cd")
}

// A KeyUpdate that crypto/tls has answered before the loop takes the connection over has changed the keys of both directions.
func TestKeyUpdateBeforeHandOver(t *testing.T) {
	near, far, ours, theirs := rawFarEnd(t, false)
	_, _ = far.Write(ours.Record(handshakeRecord, updateAndAnswer))
	ours = ours.Updated()
	_, _ = far.Write(ours.Record(dataRecord, "a"))
	first := make([]byte, 1)
	if _, err := io.ReadFull(near, first); err != nil {
		t.Fatal(err)
	}
	theirs.Expect(far, handshakeRecord, update)
	theirs = theirs.Updated()
	c := add(t, group(t, 1).Pick(), near, echoing(), first)
	theirs.Expect(far, dataRecord, "a")
	_, _ = far.Write(ours.Record(dataRecord, "bc"))
	theirs.Expect(far, dataRecord, "bc")
	on(t, c, func() {
		if c.secured.records == nil {
			t.Error("crypto/tls still has the connection")
		}
	})
}

// What TLS answers by itself may be sent together with what another connection has written, whose handler then pauses this one. What came with
// the message that is answered is not lost, although the handler gathers nothing.
func TestPausedByAnAnswer(t *testing.T) {
	for name, byCrypto := range map[string]bool{"an answer to a KeyUpdate": true, "an alert": false} {
		t.Run(name, func(t *testing.T) {
			l, values := recovering(t)
			near, far, ours, _ := rawFarEnd(t, byCrypto)
			h := collect()
			c := add(t, l, near, h, nil)
			conns, _ := several(t, l, 1)
			full := conns[0]
			var arrives []byte
			if byCrypto {
				arrives = ours.Record(handshakeRecord, updateAndAnswer)
				arrives = append(arrives, ours.Updated().Record(dataRecord, "words")...)
			} else {
				arrives = append(ours.Record(dataRecord, "words"), ours.Record(dataRecord, "forged")...)
				arrives[len(arrives)-1]++
			}
			call(t, l, func() {
				full.SetHandler(&pausing{other: c})
				for full.send(make([]byte, 64<<10)) > 0 {
				}
				c.Write([]byte("queued first")) // so that its answer cannot join what is queued
				full.Write([]byte("queued behind it"))
				if _, err := far.Write(arrives); err != nil {
					t.Error(err)
				}
				l.Handling(c)
				c.handle(unix.EPOLLIN)
				if !c.Paused() || len(h.bytes) > 0 {
					t.Errorf("paused: %v, received %q", c.Paused(), h.bytes)
				}
				c.Resume()
			})
			settle(t, l)
			call(t, l, func() {
				if string(h.bytes) != "words" || (len(h.errs) == 1) == byCrypto {
					t.Errorf("received %q, ended with %v", h.bytes, h.errs)
				}
			})
			if got := values(); len(got) > 0 {
				t.Errorf("panics: %v", got)
			}
		})
	}
}

// pausing is a [StallHandler] that pauses another connection.
type pausing struct {
	script
	other *Conn
}

func (p *pausing) Stalled(*Conn) { p.other.Pause() }
