package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The proxy answers pings itself, at the end of the frame that is under way to the side that pings, and only the last of
// them. Neither pings nor pongs are passed on.
func TestPingDuringLargeFrame(t *testing.T) {
	play := func(t *testing.T, from, to *wstest.Peer) {
		// A message of two frames; while the first is on its way, its receiver pings.
		first, second := from.Encode(false, frame.Binary, wstest.Noise(1, 300_000)), from.Encode(true, frame.Continuation, wstest.Noise(2, 1000))
		from.SendBytes(first[:100_000])
		to.ExpectBytes(first[:100_000])
		for i := range 5 {
			to.Send(frame.Ping, fmt.Sprintf("ping %d", i))
		}
		to.Send(frame.Pong, "nobody asked")
		to.Send(frame.Text, "behind the pings") // when this has arrived, the proxy has seen them
		from.Expect(frame.Text, "behind the pings")
		from.SendBytes(first[100_000:])
		to.ExpectBytes(first[100_000:])
		to.Expect(frame.Pong, "ping 4")
		from.SendBytes(second)
		to.ExpectBytes(second)
		// Between frames there is nothing to wait for.
		for i := range 3 {
			text := strings.Repeat("x", 62*i)
			to.Send(frame.Ping, text)
			to.Expect(frame.Pong, text)
		}
	}
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run("from the client, "+profile, func(t *testing.T) {
			r := newRig(t, setup{Profile: profile})
			client, server := r.Session()
			for range 2 { // what is answered here
				client.Send(frame.Text, "question")
				server.Expect(frame.Text, "question")
			}
			play(t, server, client)
		})
		t.Run("from the backend, "+profile, func(t *testing.T) {
			r := newRig(t, setup{Profile: profile})
			client, server := r.Session()
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			play(t, client, server)
		})
	}
}

// Control frames between and within messages, cut everywhere: the data passes as it is, and each ping gets its answer.
func TestControlFramesInPieces(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	for _, ends := range []struct{ from, to *wstest.Peer }{{client, server}, {server, client}} {
		from, to := ends.from, ends.to
		stream := slicesOf(
			from.Encode(false, frame.Text, []byte("fragm")),
			from.Encode(true, frame.Ping, []byte("a")),
			from.Encode(true, frame.Pong, []byte("b")),
			from.Encode(true, frame.Continuation, []byte("ented ä")),
			from.Encode(true, frame.Ping, nil),
			from.Encode(true, frame.Binary, wstest.Noise(3, 200)),
		)
		for _, cut := range []int{1, 2, 3, 7, 50} {
			for rest := stream; len(rest) > 0; rest = rest[min(cut, len(rest)):] {
				from.SendBytes(rest[:min(cut, len(rest))])
			}
			to.Expect(frame.Text, "fragm")
			to.Expect(frame.Continuation, "ented ä")
			to.Expect(frame.Binary, string(wstest.Noise(3, 200)))
			// Pieces may arrive together, and then only the last ping is answered.
			h, payload, err := from.Next()
			if err == nil && string(payload) == "a" {
				h, payload, err = from.Next()
			}
			if err != nil || h.Opcode != frame.Pong || len(payload) != 0 {
				t.Fatalf("got %v %q, %v; want an empty pong", h.Opcode, payload, err)
			}
		}
	}
}

func slicesOf(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// A client, or a backend, that pings without end and reads nothing makes nothing grow. When it reads again, its last ping
// has been answered.
func TestPingFlood(t *testing.T) {
	for from, pings := range map[string]uint32{"client": 1000, "backend": 100_000} { // a client may send no more at a time
		t.Run("from the "+from, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			r.sent() // the answer to the upgrade, too
			pest, other := client, server
			if from == "backend" {
				pest, other = server, client
			}
			text := make([]byte, frame.MaxControlPayload)
			for i := uint32(0); i < pings; {
				var batch []byte
				for range 1000 {
					i++
					binary.BigEndian.PutUint32(text, i)
					batch = append(batch, pest.Encode(true, frame.Ping, text)...)
				}
				pest.SendBytes(batch)
			}
			pest.Send(frame.Text, "over")
			other.Expect(frame.Text, "over")
			r.on(func(s *Session) {
				d := &s.leg.down
				if from == "backend" {
					d = &s.leg.up
				}
				if n := d.to.Pending(); n > frame.MaxControlSize {
					t.Errorf("%d bytes are kept; want one pong at most", n)
				}
			})
			last, answers := uint32(0), 0
			for last != pings {
				h, payload, err := pest.Next()
				if err != nil || h.Opcode != frame.Pong || len(payload) != len(text) {
					t.Fatalf("got %v %q, %v behind %d pongs", h.Opcode, payload, err, answers)
				}
				n := binary.BigEndian.Uint32(payload)
				if n <= last || n > pings {
					t.Fatalf("the pong to ping %d came behind that to %d", n, last)
				}
				last = n
				answers++
			}
			t.Logf("%d of %d pings were answered", answers, pings)
		})
	}
}

// Pings that come together get one answer, also with messages between them.
func TestPingsTogether(t *testing.T) {
	for name, ping := range map[string][]byte{"alone": {0x89, 0}, "with messages": {0x89, 0, 0x82, 0}} {
		t.Run(name, func(t *testing.T) { pingsTogether(t, ping) })
	}
}

func pingsTogether(t *testing.T, ping []byte) {
	r := newRig(t, setup{})
	client, server := r.Session()
	const pings = 16 << 10
	server.SendBytes(append(bytes.Repeat(ping, pings-1), 0x89, 1, 'x'))
	server.Send(frame.Text, "over")
	for h, _, err := client.Next(); h.Opcode != frame.Text; h, _, err = client.Next() {
		if err != nil {
			t.Fatal(err)
		}
	}
	answers := 0
	for last := ""; last != "x"; answers++ {
		h, payload, err := server.Next()
		if err != nil || h.Opcode != frame.Pong {
			t.Fatalf("got %v %q, %v", h.Opcode, payload, err)
		}
		last = string(payload)
	}
	if answers > pings/100 { // one for each time that the socket is read
		t.Errorf("%d answers to %d pings", answers, pings)
	}
}
