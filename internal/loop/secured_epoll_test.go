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
	_, _ = far.Write(append(ours.record(dataRecord, "ab"), ours.record(handshakeRecord, updateAndAnswer)...))
	first := make([]byte, 1)
	if _, err := io.ReadFull(near, first); err != nil {
		t.Fatal(err)
	}
	add(t, group(t, 1).Pick(), near, echoing(), first)
	theirs.expect(far, handshakeRecord, update)
	theirs = theirs.updated()
	theirs.expect(far, dataRecord, "ab")
	_, _ = far.Write(ours.updated().record(dataRecord, "cd"))
	theirs.expect(far, dataRecord, "cd")
}

// A KeyUpdate that crypto/tls has answered before the loop takes the connection over has changed the keys of both directions.
func TestKeyUpdateBeforeHandOver(t *testing.T) {
	near, far, ours, theirs := rawFarEnd(t, false)
	_, _ = far.Write(ours.record(handshakeRecord, updateAndAnswer))
	ours = ours.updated()
	_, _ = far.Write(ours.record(dataRecord, "a"))
	first := make([]byte, 1)
	if _, err := io.ReadFull(near, first); err != nil {
		t.Fatal(err)
	}
	theirs.expect(far, handshakeRecord, update)
	theirs = theirs.updated()
	c := add(t, group(t, 1).Pick(), near, echoing(), first)
	theirs.expect(far, dataRecord, "a")
	_, _ = far.Write(ours.record(dataRecord, "bc"))
	theirs.expect(far, dataRecord, "bc")
	on(t, c, func() {
		if c.secured.records == nil {
			t.Error("crypto/tls goes on with the connection")
		}
	})
}
