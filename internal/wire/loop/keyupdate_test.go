package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The types of what records hold.
const (
	handshakeRecord = 22
	dataRecord      = 23
)

// KeyUpdate messages: one that wants no answer, and one that does (RFC 8446, section 4.6.3).
const update, updateAndAnswer = "\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01"

// rawFarEnd returns a connection whose far end speaks records itself after the handshake, without crypto/tls. With byCrypto, the near end
// stays with crypto/tls.
func rawFarEnd(t *testing.T, byCrypto bool) (near net.Conn, far net.Conn, ours, theirs *securetest.Keys) {
	t.Helper()
	var log bytes.Buffer
	server, client := configs(t, tls.VersionTLS13)
	if byCrypto {
		client.KeyLogWriter = io.Discard
	}
	server.SessionTicketsDisabled, server.KeyLogWriter = true, &log // without tickets, the first record is ours
	nearTCP, farTCP := wstest.Pair(t)
	nearTLS, farTLS := shake(t, nearTCP, farTCP, server, client)
	if suite := farTLS.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("without AES in hardware, %s is used", tls.CipherSuiteName(suite))
	}
	return nearTLS, farTCP, securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "SERVER_TRAFFIC_SECRET_0")),
		securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "CLIENT_TRAFFIC_SECRET_0"))
}

// The peer updates its keys and asks for the same. The answer is sent at once or before the next data, the handler receives nothing,
// and both directions continue with the new keys. This also works when the message arrives in pieces, and when others follow at once.
func TestKeyUpdate(t *testing.T) {
	near, far, ours, theirs := rawFarEnd(t, false)
	arrived, ended := make(chan string, 10), make(chan error, 1)
	c := add(t, group(t, 1).Pick(), near, &script{
		received: func(c *Conn, b []byte) int {
			arrived <- string(b)
			if !c.halfClose {
				c.Write(b)
			}
			return len(b)
		},
		ended: func(_ *Conn, err error) { ended <- err },
	}, nil)
	send := func(b []byte) {
		t.Helper()
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send(ours.Record(handshakeRecord, updateAndAnswer))
	ours = ours.Updated()
	send(ours.Record(dataRecord, "with new keys"))
	theirs.Expect(far, handshakeRecord, update)
	theirs = theirs.Updated()
	theirs.Expect(far, dataRecord, "with new keys")
	message := ours.Record(handshakeRecord, updateAndAnswer[:2]) // a message in two records, the second one in two pieces
	rest := ours.Record(handshakeRecord, updateAndAnswer[2:])
	send(append(message, rest[:7]...))
	settle(t, c.Loop())
	ours = ours.Updated()
	send(append(rest[7:], ours.Record(dataRecord, "with newer keys")...))
	theirs.Expect(far, handshakeRecord, update)
	theirs = theirs.Updated()
	theirs.Expect(far, dataRecord, "with newer keys")
	for _, want := range []string{"with new keys", "with newer keys"} {
		if got := wstest.Receive(t, arrived, "data"); got != want {
			t.Errorf("received %q; want %q", got, want)
		}
	}
	select {
	case got := <-arrived:
		t.Errorf("received %q, too", got)
	default:
	}
	if portable {
		return // crypto/tls fails when it cannot answer an update
	}
	on(t, c, c.CloseWrite)
	theirs.Expect(far, 21, "\x01\x00") // close_notify
	send(ours.Record(handshakeRecord, updateAndAnswer))
	ours = ours.Updated()
	send(ours.Record(dataRecord, "still heard"))
	if got := wstest.Receive(t, arrived, "data behind an update that can no longer be answered"); got != "still heard" {
		t.Errorf("received %q", got)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes behind close_notify, %v", n, err)
	}
	_ = far.Close()
	if err := wstest.Receive(t, ended, "the end"); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
}

// Session tickets are no data.
func TestTicketsAreNoData(t *testing.T) {
	near, far := securedBy(tls.VersionTLS13)(t)
	arrived := make(chan string, 10)
	add(t, group(t, 1).Pick(), near, &script{received: func(_ *Conn, b []byte) int {
		arrived <- string(b)
		return len(b)
	}}, nil)
	_, _ = far.Write([]byte("first"))
	if got := wstest.Receive(t, arrived, "data"); got != "first" {
		t.Errorf("received %q", got)
	}
}
