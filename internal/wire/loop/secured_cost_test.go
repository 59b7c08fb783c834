package loop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// This file measures what TLS costs.

// recordStream is a far end by package tlsrecord, which, unlike crypto/tls, does not allocate with each read.
type recordStream struct {
	*net.TCPConn
	records        *tlsrecord.Conn
	sealed         []byte
	buf            []byte
	from, to, used int // of buf, of which have bytes have arrived
	have           int
}

func (r *recordStream) Write(b []byte) (int, error) {
	r.sealed = r.records.Seal(r.sealed[:0], b)
	_, err := r.TCPConn.Write(r.sealed)
	return len(b), err
}

func (r *recordStream) Read(b []byte) (int, error) {
	for r.from == r.to {
		r.have = copy(r.buf, r.buf[r.used:r.have])
		n, err := r.TCPConn.Read(r.buf[r.have:])
		if err != nil {
			return 0, err
		}
		r.have += n
		if r.from, r.to, r.used, err = r.records.Open(r.buf[:r.have]); err != nil && r.from == r.to {
			return 0, err
		}
	}
	n := copy(b, r.buf[r.from:r.to])
	r.from += n
	return n, nil
}

func (r *recordStream) CloseWrite() error {
	_, err := r.TCPConn.Write(r.records.SealClose(nil))
	return errors.Join(err, r.TCPConn.CloseWrite())
}

// withoutAllocations returns the dialer of connections of which neither end allocates.
func (v variant) withoutAllocations(t testing.TB) (net.Conn, stream) {
	t.Helper()
	near, far := wstest.Pair(t)
	server, client := configs(t, v.version)
	serverEnd := secure.Server(far, secure.ForServer(server), nil)
	if v.serves {
		serverEnd = secure.Server(near, secure.ForServer(server), nil)
	}
	done := make(chan error, 1)
	go func() { done <- serverEnd.Handshake() }()
	under := net.Conn(near)
	if v.serves {
		under = far
	}
	clientEnd, err := secure.Client(context.Background(), under, client)
	if err := errors.Join(err, wstest.Receive(t, done, "the handshake")); err != nil {
		t.Fatal(err)
	}
	nearTLS, farTLS := clientEnd, serverEnd
	if v.serves {
		nearTLS, farTLS = serverEnd, clientEnd
	}
	records, _ := farTLS.NetConn().(*secure.Line).Release(farTLS)
	if records == nil {
		t.Fatal("crypto/tls keeps the far end")
	}
	return nearTLS, &recordStream{TCPConn: far, records: records, buf: make([]byte, 64<<10)}
}

func TestTLSDoesNotAllocate(t *testing.T) {
	if portable {
		t.Skip("the portable driver posts a function for each read and write")
	}
	for _, v := range []variant{{version: tls.VersionTLS12}, {version: tls.VersionTLS13}, {version: tls.VersionTLS13, serves: true}} {
		send := steady(t, v.withoutAllocations)
		count := func(messages int) uint64 { // of the whole process: what allocates once in a while is to vanish among many
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range messages {
				send()
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		count(100)
		if n := count(2000); n >= 1000 {
			t.Errorf("%+v: %d allocations for 2,000 messages", v, n)
		}
	}
}

func BenchmarkRelayTLS12(b *testing.B) {
	benchmarkRelay(b, variant{version: tls.VersionTLS12}.withoutAllocations)
}

func BenchmarkRelayTLS13(b *testing.B) {
	benchmarkRelay(b, variant{version: tls.VersionTLS13}.withoutAllocations)
}

func BenchmarkRelayCryptoTLS13(b *testing.B) {
	benchmarkRelay(b, variant{version: tls.VersionTLS13, byCrypto: true}.dial)
}

// BenchmarkIdle measures the memory of b.N idle connections on a loop, after they have received one byte, and after a record of
// 16 KiB. The TLS of the far ends does not count, because nothing refers to it then. Run it with -benchtime 2000x.
func BenchmarkIdle(b *testing.B) {
	heap := func() float64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	for _, version := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		for _, size := range []int{1, 16 << 10} {
			b.Run(fmt.Sprintf("%s/%d", tls.VersionName(version), size), func(b *testing.B) {
				l := group(b, 1).Pick()
				server, client := configs(b, version)
				server.DynamicRecordSizingDisabled = true
				message := make([]byte, size)
				message[size-1] = '.'
				h := &script{received: func(c *Conn, b []byte) int {
					if b[len(b)-1] == '.' {
						c.Write([]byte("x"))
					}
					return len(b)
				}}
				before := heap()
				for range b.N {
					nearTCP, farTCP := wstest.Pair(b)
					near, far := net.Conn(nearTCP), net.Conn(farTCP)
					if version != 0 {
						near, far = shake(b, nearTCP, farTCP, server, client)
					}
					add(b, l, near, h, nil)
					if _, err := far.Write(message); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((heap()-before)/float64(b.N), "B/conn")
			})
		}
	}
}
