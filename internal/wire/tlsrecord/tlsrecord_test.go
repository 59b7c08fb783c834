package tlsrecord_test

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(s, "\n", ""), "\t", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 8448, section 3, from the end of the handshake on: each side seals what the RFC says, and opens the other's.
func TestRFC8448(t *testing.T) {
	secrets := func() (client, server []byte) {
		return unhex(t, "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"),
			unhex(t, "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")
	}
	ticket := unhex(t, `040000c90000001efad6aac502000000b22c035d829359ee5ff7af4ec900000000262a6494dc486d2c8a34cb33fa90bf
		1b0070ad3c498883c9367c09a2be785abc55cd226097a3a982117283f82a03a143efd3ff5dd36d64e861be7fd61d2827
		db279cce145077d454a3664d4e6da4d29ee03725a6a4dafcd0fc67d2aea70529513e3da2677fa5906c5b3f7d8f92f228
		bda40dda721470f9fbf297b5aea617646fac5c03272e970727c621a79141ef5f7de6505e5bfbc388e93343694093934a
		e4d3570008002a000400000400`)
	sealedTicket := unhex(t, `17030300de3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b580dcf3d11d63c758db289a
		015940252f55713e061dc13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f2b9fa1b6c0d4a3d03f75e0
		9c30ba1e62972ac46f75f7b981be63439b2999ce13064615139891d5e4c5b406f16e3fc181a77ca475840025db2f0a77
		f81b5ab05b94c01346755f69232c86519d86cbeeac87aac347d143f9605d64f650db4d023e70e952ca49fe5137121c74
		bc2697687e248746d6df353005f3bce18696129c8153556b3b6c6779b37bf15985684f`)
	data := make([]byte, 50)
	for i := range data {
		data[i] = byte(i)
	}
	fromClient := unhex(t, `1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b
		62974e1f5a6292a2977014bd1e3deae63aeebb21694915e41703030013c9872760655666b74d7ff1153efd6db6d0b0e3`)
	fromServer := unhex(t, `17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8
		fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9`)
	end := func(client bool) *tlsrecord.Conn {
		ours, theirs := secrets()
		c, err := tlsrecord.New13(tls.TLS_AES_128_GCM_SHA256, client, ours, theirs)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	client, server := end(true), end(false)
	if got := client.SealClose(client.Seal(nil, data)); !bytes.Equal(got, fromClient) {
		t.Errorf("the client sends %x", got)
	}
	if got := server.SealAs(nil, 22, ticket); !bytes.Equal(got, sealedTicket) {
		t.Errorf("the server sends the ticket as %x", got)
	}
	if got := server.SealClose(server.Seal(nil, data)); !bytes.Equal(got, fromServer) {
		t.Errorf("the server sends %x", got)
	}
	from, to, used, err := server.Open(fromClient)
	if !bytes.Equal(fromClient[from:to], data) || used != len(fromClient) || err != io.EOF {
		t.Errorf("the server receives %x, %d, %v", fromClient[from:to], used, err)
	}
	all := append(sealedTicket, fromServer...)
	from, to, used, err = client.Open(all)
	if !bytes.Equal(all[from:to], data) || used != len(all) || err != io.EOF {
		t.Errorf("the client receives %x, %d, %v", all[from:to], used, err)
	}
}

// What crypto/tls sends is opened in whatever pieces it arrives, and it opens what is sealed, with each version and suite as client and
// as server.
func TestAgainstCryptoTLS(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.String(), func(t *testing.T) {
			server, client := ends(t, k)
			c := connect(t, k, server, client)
			random := rand.New(rand.NewPCG(1, uint64(k.suite)))
			for _, size := range []int{1, 2, 100, 1 << 10, 16<<10 - 1, 16 << 10, 16<<10 + 1, 40_000} {
				message := make([]byte, size)
				for i := range message {
					message[i] = byte(random.Uint32())
				}
				_, _ = c.peer.Write(message)
				var got, waiting []byte
				for sealed := c.toUs.take(); len(sealed) > 0; {
					n := 1 + random.IntN(len(sealed))
					waiting = append(waiting, sealed[:n]...)
					sealed = sealed[n:]
					from, to, used, err := c.records.Open(waiting)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, waiting[from:to]...)
					waiting = append([]byte{}, waiting[used:]...)
					if len(waiting) >= tlsrecord.MaxRecord {
						t.Fatalf("%d bytes are left", len(waiting))
					}
				}
				if !bytes.Equal(got, message) {
					t.Fatalf("%d bytes: received something else", size)
				}
				c.toPeer.write(c.records.Seal(nil, message))
				back := make([]byte, size)
				if _, err := io.ReadFull(c.peer, back); err != nil || !bytes.Equal(back, message) {
					t.Fatalf("%d bytes: sent something else: %v", size, err)
				}
			}
			_ = c.peer.CloseWrite()
			sealed := c.toUs.take()
			if _, _, _, err := c.records.Open(sealed); err != io.EOF {
				t.Errorf("the peer's close_notify: %v", err)
			}
			c.toPeer.write(c.records.SealClose(nil))
			if n, err := c.peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("our close_notify: %d, %v", n, err)
			}
		})
	}
}

// A session that is resumed is handed over like any other.
func TestResumed(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for n := range 4 {
			c := connect(t, k, server, client)
			if resumed := c.peer.ConnectionState().DidResume; resumed != (n > 0) {
				t.Errorf("%v: connection %d: resumed %v", k, n+1, resumed)
			}
			c.toPeer.write(c.records.Seal(nil, []byte("ping")))
			got := make([]byte, 4)
			if _, err := io.ReadFull(c.peer, got); err != nil || string(got) != "ping" {
				t.Errorf("%v: sent %q, %v", k, got, err)
			}
			_, _ = c.peer.Write([]byte("pong"))
			b := c.toUs.take()
			if from, to, _, err := c.records.Open(b); err != nil || string(b[from:to]) != "pong" {
				t.Errorf("%v: received %q, %v", k, b[from:to], err)
			}
		}
	}
}

// A ticket that the server can no longer use costs a full handshake, of another secret.
func TestNotResumed(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for n := range 2 {
			server.SetSessionTicketKeys([][32]byte{{byte(n)}})
			c := connect(t, k, server, client)
			if c.peer.ConnectionState().DidResume {
				t.Errorf("%v: resumed", k)
			}
			c.toPeer.write(c.records.Seal(nil, []byte("ping")))
			got := make([]byte, 4)
			if _, err := io.ReadFull(c.peer, got); err != nil || string(got) != "ping" {
				t.Errorf("%v: sent %q, %v", k, got, err)
			}
		}
	}
}

// Before the limit of a key is reached, this end updates it. crypto/tls understands that.
func TestKeyLimit(t *testing.T) {
	for _, client := range []bool{false, true} {
		k := kind{tls.VersionTLS13, tls.TLS_AES_256_GCM_SHA384, client}
		serverConfig, clientConfig := ends(t, k)
		c := connect(t, k, serverConfig, clientConfig)
		mirror := c.records.Mirror()
		c.records.SetSealed(tlsrecord.MaxRecords - 1)
		mirror.SetOpened(tlsrecord.MaxRecords - 1)
		sealed := c.records.Seal(c.records.Seal(nil, []byte("last")), []byte("first"))
		if n := c.records.Sealed(); n != 1 {
			t.Errorf("%d records are sealed with the new key", n)
		}
		from, to, _, err := mirror.Open(sealed)
		if string(sealed[from:to]) != "lastfirst" || err != nil {
			t.Errorf("received %q, %v", sealed[from:to], err)
		}
	}
	k := kind{tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, true} // has no way to update
	serverConfig, clientConfig := ends(t, k)
	c := connect(t, k, serverConfig, clientConfig)
	c.records.SetSealed(tlsrecord.MaxRecords)
	if c.records.Seal(nil, []byte("x")); c.records.Sealed() != tlsrecord.MaxRecords+1 {
		t.Error("TLS 1.2 does not count on")
	}
}

// A peer that updates its keys and asks for others gets one answer, with the next data, however often it has asked.
func TestKeyUpdateIsAnsweredOnce(t *testing.T) {
	k := kind{tls.VersionTLS13, tls.TLS_AES_128_GCM_SHA256, false}
	server, client := ends(t, k)
	c := connect(t, k, server, client)
	mirror := c.records.Mirror()
	var sealed []byte
	for range tlsrecord.MaxUseless {
		sealed = mirror.SealAs(sealed, 22, []byte{24, 0, 0, 1, 1})
		mirror.UpdateOut()
	}
	sealed = mirror.Seal(sealed, []byte("data"))
	from, to, _, err := c.records.Open(sealed)
	if string(sealed[from:to]) != "data" || err != nil {
		t.Fatalf("received %q, %v", sealed[from:to], err)
	}
	answer := c.records.Seal(c.records.Seal(nil, []byte("a")), []byte("b"))
	c.toPeer.write(answer)
	got := make([]byte, 2)
	if _, err := io.ReadFull(c.peer, got); err != nil || string(got) != "ab" { // by crypto/tls
		t.Errorf("answered %q, %v", got, err)
	}
	if n := c.records.Sealed(); n != 2 {
		t.Errorf("%d records with the new keys", n)
	}
}

// Everything that a peer must not send ends the connection with the alert that the RFC names, after the data before it.
func TestRefusals(t *testing.T) {
	const unexpected, badMAC, overflow, illegal, decode, version, renegotiation = 10, 20, 22, 47, 50, 70, 100
	type send func(peer *tlsrecord.Conn, b []byte) []byte
	as := func(kind byte, content ...byte) send {
		return func(peer *tlsrecord.Conn, b []byte) []byte { return peer.SealAs(b, kind, content) }
	}
	raw := func(raw ...byte) send {
		return func(_ *tlsrecord.Conn, b []byte) []byte { return append(b, raw...) }
	}
	both := func(first, second send) send {
		return func(peer *tlsrecord.Conn, b []byte) []byte { return second(peer, first(peer, b)) }
	}
	many := func(n int, one send) send {
		return func(peer *tlsrecord.Conn, b []byte) []byte {
			for range n {
				b = one(peer, b)
			}
			return b
		}
	}
	update := func(peer *tlsrecord.Conn, b []byte) []byte {
		b = peer.SealAs(b, 22, []byte{24, 0, 0, 1, 1})
		peer.UpdateOut()
		return b
	}
	corrupt := func(at int) send {
		return func(peer *tlsrecord.Conn, b []byte) []byte {
			start := len(b)
			b = peer.SealAs(b, 23, []byte("altered"))
			b[start+at] ^= 1
			return b
		}
	}
	ticket := append([]byte{4, 0, 0, 13}, make([]byte, 13)...)
	type refusal struct {
		name  string
		send  send
		alert byte
	}
	everywhere := []refusal{
		{"altered content", corrupt(12), badMAC},
		{"altered tag", corrupt(5 + 8 + 7 + 3), badMAC},
		{"old version", raw(23, 3, 1, 0, 40), version},
		{"HTTP", raw([]byte("HTTP/1.1 400 Bad Request\r\n")...), version},
		{"unknown type", raw(24, 3, 3, 0, 40), unexpected},
		{"unknown type below", raw(19, 3, 3, 0, 40), unexpected},
		{"change_cipher_spec", raw(20, 3, 3, 0, 1, 1), unexpected},
		{"too short", raw(23, 3, 3, 0, 3, 1, 2, 3), badMAC},
		{"empty", raw(23, 3, 3, 0, 0), badMAC},
		{"oversized", raw(23, 3, 3, 0xff, 0xff), overflow},
		{"content of 16 KiB and a byte", func(peer *tlsrecord.Conn, b []byte) []byte {
			return peer.SealAs(b, 23, make([]byte, 16<<10+1))
		}, overflow},
		{"empty records without end", many(tlsrecord.MaxUseless+1, as(23)), unexpected},
		{"an alert of one byte", as(21, 1), unexpected},
		{"an alert of three bytes", as(21, 1, 0, 0), unexpected},
		{"an empty handshake record", as(22), unexpected},
		{"Finished", as(22, 20, 0, 0, 0), unexpected},
	}
	only13 := []refusal{
		{"nothing but padding", as(0, 0, 0), unexpected},
		{"new keys without end", many(tlsrecord.MaxUseless+1, update), unexpected},
		{"an inner change_cipher_spec", as(20, 1), unexpected},
		{"a record of the handshake", raw(22, 3, 3, 0, 40), unexpected},
		{"a plain alert", raw(21, 3, 3, 0, 2, 2, 40), unexpected},
		{"KeyUpdate 2", as(22, 24, 0, 0, 1, 2), illegal},
		{"KeyUpdate of two bytes", as(22, 24, 0, 0, 2, 0, 0), decode},
		{"an empty KeyUpdate", as(22, 24, 0, 0, 0), decode},
		{"something behind a KeyUpdate", as(22, 24, 0, 0, 1, 0, 24), unexpected},
		{"data within a message", both(as(22, 24, 0, 0), as(23, 'x')), unexpected},
		{"an empty record within a message", both(as(22, 24, 0, 0), as(23)), unexpected},
		{"an alert within a message", both(as(22, 24, 0), as(21, 1, 0)), unexpected},
		{"CertificateRequest", as(22, 13, 0, 0, 0), unexpected},
	}
	fromServer13 := []refusal{
		{"tickets without end", many(tlsrecord.MaxUseless+1, as(22, ticket...)), unexpected},
		{"an empty ticket", as(22, 4, 0, 0, 0), decode},
		{"a huge ticket", as(22, 4, 2, 0, 0), decode},
	}
	toServer13 := []refusal{{"a ticket for a server", as(22, ticket...), unexpected}}
	fromServer12 := []refusal{{"HelloRequest", as(22, 0, 0, 0, 0), renegotiation}, {"a KeyUpdate", as(22, 24, 0, 0, 1, 0), unexpected}}
	toServer12 := []refusal{{"ClientHello", as(22, 1, 0, 0, 4, 0), renegotiation}, {"HelloRequest", as(22, 0, 0, 0, 0), unexpected}}
	for _, k := range kinds() {
		server, client := ends(t, k)
		cases := everywhere
		switch {
		case k.version == tls.VersionTLS13 && k.client:
			cases = append(append(cases[:len(cases):len(cases)], only13...), fromServer13...)
		case k.version == tls.VersionTLS13:
			cases = append(append(cases[:len(cases):len(cases)], only13...), toServer13...)
		case k.client:
			cases = append(cases[:len(cases):len(cases)], fromServer12...)
		default:
			cases = append(cases[:len(cases):len(cases)], toServer12...)
		}
		for i, refused := range cases {
			c := connect(t, k, server, client)
			mirror := c.records.Mirror()
			sealed := refused.send(mirror, mirror.Seal(nil, []byte("before")))
			from, to, _, err := c.records.Open(sealed)
			if string(sealed[from:to]) != "before" || err == nil {
				t.Errorf("%v: %s: received %q, %v", k, refused.name, sealed[from:to], err)
				continue
			}
			var alert tls.AlertError
			if !errors.As(err, &alert) || byte(alert) != refused.alert || !strings.HasPrefix(err.Error(), "local error: tls: ") {
				t.Errorf("%v: %s: %v (%d); want alert %d", k, refused.name, err, alert, refused.alert)
			}
			if i > 0 && i < len(everywhere) {
				continue // the peer hears of all in the same way
			}
			c.toPeer.write(c.records.SealError(nil, err))
			c.toPeer.close()
			want := "remote error: " + alert.Error()
			if refused.alert == renegotiation {
				want = "EOF" // crypto/tls ignores warnings
			}
			if _, err := c.peer.Read(make([]byte, 1)); err == nil || err.Error() != want {
				t.Errorf("%v: %s: the peer hears %v; want %s", k, refused.name, err, want)
			}
		}
	}
}

// What a peer may send besides data changes nothing.
func TestTolerated(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		c := connect(t, k, server, client)
		mirror := c.records.Mirror()
		var sealed []byte
		for range 3 * tlsrecord.MaxUseless { // each of it is forgotten when data comes
			sealed = mirror.SealAs(sealed, 23, nil)
			sealed = mirror.Seal(sealed, []byte("x"))
			switch {
			case k.version == tls.VersionTLS12:
				sealed = mirror.SealAs(sealed, 21, []byte{1, 90}) // a warning
				continue
			case k.client:
				for _, piece := range []string{"\x04\x00", "\x00\x05abc", "de\x04\x00\x00\x01", "z"} { // two tickets
					sealed = mirror.SealAs(sealed, 22, []byte(piece))
				}
			}
			sealed = mirror.SealAs(sealed, 21, []byte{1, 90}) // user_canceled
			sealed = mirror.SealAs(sealed, 22, []byte{24, 0, 0})
			sealed = mirror.SealAs(sealed, 22, []byte{1, 0})
			mirror.UpdateOut()
			sealed = mirror.SealAs(sealed, 0, []byte{'y', 23, 0, 0, 0}) // padding
		}
		want := strings.Repeat("x", 3*tlsrecord.MaxUseless)
		if k.version == tls.VersionTLS13 {
			want = strings.Repeat("xy", 3*tlsrecord.MaxUseless)
		}
		from, to, used, err := c.records.Open(sealed)
		if string(sealed[from:to]) != want || used != len(sealed) || err != nil {
			t.Errorf("%v: received %q, %d of %d, %v", k, sealed[from:to], used, len(sealed), err)
		}
	}
}

// An alert of the peer says whose it is, and is not answered.
func TestAlerts(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		c := connect(t, k, server, client)
		sealed := c.records.Mirror().SealAs(nil, 21, []byte{2, 48})
		_, _, _, err := c.records.Open(sealed)
		if err == nil || err.Error() != "remote error: tls: unknown certificate authority" {
			t.Errorf("%v: %v", k, err)
		}
		if answer := c.records.SealError(nil, err); len(answer) > 0 {
			t.Errorf("%v: answered", k)
		}
	}
}

// Nothing is allocated for a record.
func TestDoesNotAllocate(t *testing.T) {
	for _, k := range kinds() {
		server, client := ends(t, k)
		c := connect(t, k, server, client)
		mirror := c.records.Mirror()
		message, buf := make([]byte, 1<<10), make([]byte, 0, 4<<10)
		if n := testing.AllocsPerRun(100, func() {
			buf = c.records.Seal(c.records.Seal(buf[:0], message), message)
			if from, to, _, err := mirror.Open(buf); to-from != 2*len(message) || err != nil {
				t.Fatal(from, to, err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations", k, n)
		}
	}
}

// Suites that have no AEAD, and values that do not belong together, are left to crypto/tls.
func TestUnsupported(t *testing.T) {
	secret, random := make([]byte, 32), make([]byte, 32)
	for _, suite := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, 0} {
		if _, err := tlsrecord.New13(suite, true, secret, secret); err == nil {
			t.Errorf("%s with TLS 1.3", tls.CipherSuiteName(suite))
		}
	}
	for _, suite := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_AES_128_GCM_SHA256, 0} {
		if _, err := tlsrecord.New12(suite, true, make([]byte, 48), random, random); err == nil {
			t.Errorf("%s with TLS 1.2", tls.CipherSuiteName(suite))
		}
	}
	if _, err := tlsrecord.New12(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, true, secret, random, random); err == nil {
		t.Error("a short master secret")
	}
}
