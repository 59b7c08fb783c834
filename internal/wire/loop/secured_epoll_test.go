//go:build linux && !portableloop

package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"
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
