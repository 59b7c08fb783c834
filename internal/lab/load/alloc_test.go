//go:build linux && !portableloop && !race

package load

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// plainEcho is an echo server that allocates nothing for a message. All messages have a masked header of eight bytes.
func plainEcho(size int) func(http.ResponseWriter, *http.Request) {
	var upgrader websocket.Upgrader
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		nc := c.NetConn()
		defer nc.Close()
		in, out := make([]byte, 8+size), make([]byte, 4+size)
		for {
			for n := 0; n < len(in); {
				m, err := nc.Read(in[n:])
				if err != nil || in[0]&0x0f == byte(frame.Close) {
					return
				}
				n += m
			}
			h, length, _ := frame.ParseHeader(in)
			frame.ApplyMask(in[length:], h.Mask)
			copy(out, in[:4])
			out[1] &^= 0x80
			copy(out[4:], in[length:])
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}
}

// measured runs a load against the plain server, and returns what its steady part allocated and how long it took.
func measured(t testing.TB, o Options) (r *Result, mallocs uint64) {
	server := httptest.NewServer(http.HandlerFunc(plainEcho(o.Size)))
	defer server.Close()
	o.URLs = []string{"ws" + strings.TrimPrefix(server.URL, "http")}
	o.ProgressInterval = time.Hour
	var before, after runtime.MemStats
	r, err := Run(t.Context(), o, func(p Progress) {
		switch {
		case p.Begins && p.Phase == Steady:
			runtime.ReadMemStats(&before)
		case p.Begins && p.Phase == Draining:
			runtime.ReadMemStats(&after)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil || r.Received == 0 {
		t.Fatal(err, r.Errors)
	}
	return r, after.Mallocs - before.Mallocs
}

func TestMessagesAllocateNothing(t *testing.T) {
	o := quick("")
	o.Size, o.Rate, o.Duration = 1024, 1000, 500*time.Millisecond
	r, mallocs := measured(t, o)
	t.Logf("%d messages, %d allocations", r.Received, mallocs)
	// The steady part allocates a few dozen times, however many messages it sends.
	if mallocs > uint64(r.Received)/10 {
		t.Errorf("%d allocations for %d messages", mallocs, r.Received)
	}
}

// BenchmarkScript is the work on a message apart from the system calls: making it and comparing its echo.
func BenchmarkScript(b *testing.B) {
	s := newScript(Options{Size: 1024, Text: true}, rand.New(rand.NewPCG(9, 10)))
	buffer := s.append(nil, 1, 0)
	var echoes [64][]byte
	for i := range echoes {
		f := s.append(nil, 1, uint32(i))
		h, size, _ := frame.ParseHeader(f)
		frame.ApplyMask(f[size:], h.Mask)
		echoes[i] = frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Text}, f[size:])
	}
	var times Times
	var in inbox
	var r reply
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buffer = s.append(buffer[:0], 1, uint32(i&63))
		p, _, err := in.next(echoes[i&63])
		r.begin()
		r.take(s, 1, p.payload)
		if known := r.end(s); !known || r.wrong != "" || err != nil {
			b.Fatal(r.wrong, err)
		}
		times.Record(int64(i))
	}
}
