package session

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// What records hold, and messages that tell of new keys (RFC 8446, sections 5.1 and 4.6.3).
const (
	handshakeRecord, dataRecord = 22, 23
	updated, update             = "\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01" // the latter wants an answer
)

// rawClient returns the proxy's side of a TLS connection, and a client that speaks records itself.
func rawClient(t *testing.T, authority *securetest.Authority, certificate tls.Certificate, now time.Time) (nc net.Conn, far net.Conn, ours, theirs *securetest.Keys) {
	t.Helper()
	var log bytes.Buffer
	far, near := net.Pipe()
	t.Cleanup(func() { _, _ = far.Close(), near.Close() })
	server := secure.Server(near, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true}, nil)
	client := tls.Client(far, &tls.Config{RootCAs: authority.Pool(), ServerName: "proxy.example", Time: func() time.Time { return now }, KeyLogWriter: &log})
	failed := make(chan error, 1)
	go func() { failed <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if suite := client.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("without AES in hardware, %s is used", tls.CipherSuiteName(suite))
	}
	return server, far, securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "CLIENT_TRAFFIC_SECRET_0")),
		securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "SERVER_TRAFFIC_SECRET_0"))
}

// A client in the queue that asks for new keys without end, and takes no answer or few, keeps no goroutine and no server.
func TestKeyUpdateFloodInQueue(t *testing.T) {
	authority := securetest.NewAuthority(t)
	certificate, now := authority.Issue(nil, "proxy.example"), time.Now() // the clock in the bubble is many years late
	for name, pause := range map[string]time.Duration{"it reads nothing": 0, "it reads an answer now and then": tellTimeout * 9 / 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, far, ours, _ := rawClient(t, authority, certificate, now)
				var flood []byte
				for range 80 { // as many as fit into what is read at once
					flood = append(flood, ours.Record(handshakeRecord, update)...)
					ours = ours.Updated()
					flood = append(flood, ours.Record(dataRecord, "x")...)
				}
				reader := readEarly(nc, nil)
				if _, err := far.Write(flood); err != nil {
					t.Fatal(err)
				}
				if pause == 0 {
					synctest.Wait()
					time.Sleep(tellTimeout)
					synctest.Wait()
					if !reader.hasLeft() {
						t.Error("a client that takes no answers still waits in the queue")
					}
				} else {
					var reading sync.WaitGroup
					defer reading.Wait()
					reading.Go(func() {
						for {
							time.Sleep(pause)
							if _, err := far.Read(make([]byte, 27)); err != nil {
								return
							}
						}
					})
					defer far.Close()
					time.Sleep(2 * tellTimeout)
				}
				begun := time.Now()
				_ = reader.stop()
				if took := time.Since(begun); took > tellTimeout || !reader.hasLeft() {
					t.Errorf("the client was waited for for %v, and has left: %v", took, reader.hasLeft())
				}
			})
		})
	}
}

// A client in the queue that asks for new keys gets them, whenever it does, and the connection is as it was afterwards.
func TestKeyUpdateInQueue(t *testing.T) {
	authority := securetest.NewAuthority(t)
	certificate, now := authority.Issue(nil, "proxy.example"), time.Now()
	synctest.Test(t, func(t *testing.T) {
		nc, far, ours, theirs := rawClient(t, authority, certificate, now)
		reader := readEarly(nc, nil)
		for range 2 {
			time.Sleep(10 * tellTimeout)
			_, _ = far.Write(ours.Record(handshakeRecord, update))
			ours = ours.Updated()
			theirs.Expect(far, handshakeRecord, updated)
			theirs = theirs.Updated()
			_, _ = far.Write(ours.Record(dataRecord, "ab"))
		}
		synctest.Wait()
		if early := reader.stop(); string(early) != "abab" || reader.hasLeft() {
			t.Errorf("got %q, and the client has left: %v", early, reader.hasLeft())
		}
		time.Sleep(10 * tellTimeout)
		go func() { _, _ = nc.Write([]byte("cd")) }()
		theirs.Expect(far, dataRecord, "cd")
		if _, bounded := nc.(*tls.Conn).NetConn().(*secure.Line).Conn.(*boundedAnswers); bounded {
			t.Error("the connection has not got its transport back")
		}
	})
}
