package admission_test

import (
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// failing is a listener that cannot accept as long as there are failures left.
type failing struct {
	net.Listener
	left atomic.Int32
}

func (l *failing) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// A server that cannot accept clients since there is no descriptor for them says so to the book of descriptors, which makes room,
// and logs nothing itself. It continues when there are some again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	var shed, connections atomic.Int64
	var book *machine.Descriptors
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Gate: func(o *admission.Options) {
		book = machine.NewDescriptors(machine.Options{
			Limit: func() int { return 64 }, Used: func() int { return 64 },
			Connections: connections.Load, Clients: func() int64 { return 0 },
			Shed: func(n int) int { shed.Add(1); return n }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		o.Descriptors = book
	}})
	defer book.Close()
	r.Ready(1)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &failing{Listener: inner}
	l.left.Store(3)
	r.Address = inner.Addr().String()
	r.Gate.Serve(l)
	client := r.Join()
	client.Send(frame.Text, "hello")
	client.Expect(frame.Text, "hello")
	if book.Accepting() == nil || shed.Load() == 0 {
		t.Errorf("the book says %v, and idle connections were closed %d times", book.Accepting(), shed.Load())
	}
	client.CloseNormally()
	if a := r.Record(); a["by"].String() != "client" || a["connection_fate"].String() != "returned" {
		t.Errorf("record: %v", a)
	}
	for len(r.Log.Lines) > 0 {
		if line := <-r.Log.Lines; line.Message == "cannot accept a client" {
			t.Error("the server logs each attempt")
		}
	}
}
