package admission

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// At most as many TLS handshakes compute at a time as there are turns; clients that are slow take none, and may be dropped meanwhile.
func TestTLSTurns(t *testing.T) {
	authority := securetest.NewAuthority(t)
	certificate := authority.Issue(nil, "proxy.example")
	now := time.Now() // the clock in the bubble is many years late
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var set unfinished
			set.init(&storms{log: slog.New(slog.DiscardHandler)})
			turns := make(tlsTurns, 2)
			var mu sync.Mutex
			computing, most, done := 0, 0, 0
			server := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				mu.Lock()
				computing++
				most = max(most, computing)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				computing--
				mu.Unlock()
				return &certificate, nil
			}}
			var tasks sync.WaitGroup
			shake := func(client net.Conn, nc net.Conn) {
				var o *opening
				set.enter(nc, time.Now(), netip.Addr{}, room{100, 100}, func(placed *opening, _ bool) { o = placed })
				tasks.Go(func() {
					defer o.leave(false)
					var begins []byte
					if early {
						begins = make([]byte, 100)
						n, err := nc.Read(begins)
						if err != nil {
							return
						}
						begins = begins[:n]
					}
					conn, err := turns.handshake(nc, begins, server, o)
					if err != nil {
						return
					}
					mu.Lock()
					done++
					mu.Unlock()
					if _, err := conn.Write([]byte("x")); err != nil { // over the connection itself, without turns
						t.Error(err)
					}
					if o.working {
						t.Error("the handshake is over, and its client is waited for")
					}
				})
			}
			var slow []net.Conn
			for range 10 { // these send a part of their first message
				client, nc := net.Pipe()
				shake(client, nc)
				slow = append(slow, client)
				_, _ = client.Write([]byte("\x16\x03\x01\x02\x00\x01"))
			}
			synctest.Wait()
			begun := time.Now()
			for range 20 {
				client, nc := net.Pipe()
				shake(client, nc)
				tasks.Go(func() {
					conn := tls.Client(client, &tls.Config{RootCAs: authority.Pool(), ServerName: "proxy.example", Time: func() time.Time { return now }})
					if _, err := conn.Read(make([]byte, 1)); err != nil {
						t.Error(err)
					}
					_ = client.Close()
				})
			}
			synctest.Wait()
			time.Sleep(time.Second)
			mu.Lock()
			if done != 20 || most != 2 {
				t.Errorf("%d handshakes were carried out, %d at a time", done, most)
			}
			mu.Unlock()
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("they took %v", took)
			}
			if !set.dropOldest() {
				t.Error("no slow client could be dropped")
			}
			for _, client := range slow {
				_ = client.Close()
			}
			tasks.Wait()
			if len(turns) != 0 {
				t.Errorf("%d turns were not given back", len(turns))
			}
		})
	}
}

// A client waits for its turn without being blamed for that, also if its first message has come with its PROXY header.
func TestWaitForTLSTurnIsNotTheClients(t *testing.T) {
	for name, early := range map[string][]byte{"early": {0x16}, "read": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set unfinished
				set.init(&storms{log: slog.New(slog.DiscardHandler)})
				turns := make(tlsTurns, 1)
				turns <- struct{}{}
				client, nc := net.Pipe()
				var o *opening
				set.enter(nc, time.Now(), netip.Addr{}, room{100, 100}, func(placed *opening, _ bool) { o = placed })
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = turns.handshake(nc, early, new(tls.Config), o)
				}()
				if early == nil {
					_, _ = client.Write([]byte{0x16})
				}
				time.Sleep(2 * minPatience)
				synctest.Wait()
				set.mu.Lock()
				if waited, slow := o.waited(time.Now()), oldestWaiting(&set.all); waited > 0 || slow != nil {
					t.Errorf("the client is blamed for %v, and may be dropped: %v", waited, slow != nil)
				}
				set.mu.Unlock()
				<-turns
				_ = client.Close()
				<-ended
				o.leave(false)
			})
		})
	}
}
