package admission_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// mostEarly is the most, in bytes, that the proxy takes of a client that waits.
const mostEarly = 64 << 10

// What a client sends behind its request, before it has the answer, is the beginning of its frames.
func TestEarlyData(t *testing.T) {
	r := newRig(t, setup{})
	r.Ready(1)
	first, second := wstest.ClientFrame(true, frame.Text, "first"), wstest.ClientFrame(true, frame.Binary, wstest.Noise(1, 3000))
	for _, cut := range []int{1, 7, 2000} { // of the second frame: in its header and in its payload
		client, response := r.Request(wstest.UpgradeRequest("/v1/test") + string(first) + string(second[:cut]))
		if response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %s", response.Status)
		}
		server := r.Accepted()
		server.Expect(frame.Text, "first")
		client.SendBytes(second[cut:])
		server.Expect(frame.Binary, string(wstest.Noise(1, 3000)))
		client.SendClose(frame.NormalClosure, "")
		server.ExpectClose(frame.NormalClosure, "")
		server.SendClose(frame.NormalClosure, "")
		client.ExpectClose(frame.NormalClosure, "")
		_ = server.Close()
		r.Ready(1)
	}
}

// What a client sends while it waits is relayed, up to the amount that is read meanwhile and beyond it, wherever the waiting
// ends.
func TestEarlyDataOfWaitingClient(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 1})
	holder, server := r.Session()
	for _, size := range []int{1, 125, 1000, mostEarly - 20, mostEarly, mostEarly + 1, 2*mostEarly + 1, 4 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			client := r.Queued()
			payload := wstest.Noise(byte(size), size)
			wire := slices.Concat(client.Encode(true, frame.Text, []byte("early")), client.Encode(true, frame.Binary, payload))
			begun, sent := make(chan struct{}), make(chan error, 1)
			go func() { // in two pieces, so that the waiting may end in between
				half := len(wire) / 2
				_, err := client.Conn.Write(wire[:min(half, 1<<10)])
				close(begun)
				if err == nil {
					_, err = client.Conn.Write(wire[min(half, 1<<10):])
				}
				sent <- err
			}()
			<-begun
			holder.CloseNormally()
			client.ExpectUpgrade()
			server.ExpectBytes(wire)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"early", "binary"} {
				server.Send(frame.Text, "answer to "+text)
				client.Expect(frame.Text, "answer to "+text)
			}
			holder = client
		})
	}
}

// Control frames that come early are answered, and so are errors, once the session has begun.
func TestEarlyControlFrames(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	holder := r.Join()
	polite, rude := r.Queued(), r.Queued()
	polite.SendBytes(polite.Encode(true, frame.Ping, []byte("early")), polite.Encode(true, frame.Text, []byte("question")))
	rude.SendBytes([]byte("\x81\x01x"))
	holder.CloseNormally()
	polite.ExpectUpgrade()
	got := make(map[frame.Opcode]string)
	for range 2 { // in either order: the pong follows when the socket has taken all that was written before
		h, payload, err := polite.Next()
		if err != nil {
			t.Fatal(err)
		}
		got[h.Opcode] = string(payload)
	}
	if want := map[frame.Opcode]string{frame.Pong: "early", frame.Text: "question"}; !maps.Equal(got, want) {
		t.Errorf("received %q; want %q", got, want)
	}
	polite.CloseNormally()
	rude.ExpectUpgrade()
	rude.ExpectClose(frame.ProtocolError, "client frame not masked")
	rude.ExpectEnd()
	_ = rude.Close()
	r.Ready(1)
	if s := r.Backend.Stats().Totals; s.Dialed != 1 || s.Returned != 3 {
		t.Errorf("totals: %+v; want one connection, returned three times", s)
	}
}
