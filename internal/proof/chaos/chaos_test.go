package chaos

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// hold runs scenarios for a second, with a binary, and returns the report.
func hold(t *testing.T, through func(address string) string, only ...string) (string, error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := Run(ctx, Options{
		Binary: binary, Duration: minDuration, Sessions: 15, Seed: 5, Only: only, Out: &out, through: through,
	})
	return out.String(), err
}

// A server, clients and an operator that the proxy copes with: nothing is found, and nothing is left behind.
func TestQuietRun(t *testing.T) {
	out, err := hold(t, nil, "refuses-500", "byte-by-byte", "bad-utf8", "broken-frames", "vanishes", "drains")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"seed 5", "refuses-500", "hostile clients bad-utf8: 101:", "no result on a healthy server was lost, repeated or foreign"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What goes wrong between the proxy and its clients is found, each kind in the service that it befalls.
func TestPlantedFaults(t *testing.T) {
	var relays sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	copies := func(op frame.Opcode, payload []byte) int {
		switch {
		case op == frame.Binary: // echo
			return 2
		case bytes.Contains(payload, []byte(`"partial"`)): // vosk
			return 0
		case bytes.Contains(payload, []byte(`"wav_name"`)): // funasr
			if i := bytes.Index(payload, []byte("s2000")); i >= 0 {
				payload[i+1] = '7'
			}
		case bytes.Contains(payload, []byte(`"Metadata"`)): // deepgram: its close frame is next
			return -1
		}
		return 1
	}
	out, err := hold(t, func(address string) string { return meddle(t, ctx, &relays, address, copies) }, "bad-utf8")
	cancel()
	relays.Wait()
	if !errors.Is(err, ErrFound) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{
		"FOUND results twice, on a healthy server\n  how often: ", "echo ", "FOUND results lost, on a healthy server\n  how often: vosk ",
		"FOUND foreign results, on a healthy server\n  how often: funasr ",
		"FOUND end of the stream without a close frame, on a healthy server\n  how often: keys ", "seed 5",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// meddle starts a relay to the address, which passes on as many copies of each frame from there as it is told, and returns its
// address.
func meddle(t *testing.T, ctx context.Context, tasks *sync.WaitGroup, to string, copies func(frame.Opcode, []byte) int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { relay(ctx, client, to, copies) })
		}
	})
	return listener.Addr().String()
}

func relay(ctx context.Context, client net.Conn, to string, copies func(frame.Opcode, []byte) int) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var b [4096]byte
		for {
			n, err := client.Read(b[:])
			if err != nil {
				_ = server.Close()
				return
			}
			_, _ = server.Write(b[:n])
		}
	}()
	defer func() { _ = client.Close(); <-done }()
	a := &attack{conn: server.(*net.TCPConn)}
	for !bytes.Contains(a.in, []byte("\r\n\r\n")) {
		if a.read() != nil {
			return
		}
	}
	head := bytes.Index(a.in, []byte("\r\n\r\n")) + 4
	_, _ = client.Write(a.in[:head])
	a.in = a.in[head:]
	for {
		h, size, err := frame.ParseHeader(a.in)
		if err != nil {
			return
		}
		if size == 0 || int64(len(a.in)-size) < h.Length {
			if a.read() != nil {
				return
			}
			continue
		}
		whole := a.in[:size+int(h.Length)]
		n := copies(h.Opcode, whole[size:])
		if n < 0 {
			return
		}
		for range n {
			_, _ = client.Write(whole)
		}
		a.in = a.in[len(whole):]
	}
}

func TestValidate(t *testing.T) {
	good := Options{Binary: binary}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(o *Options){
		`binary: "/nowhere" cannot run`:                    func(o *Options) { o.Binary = "/nowhere" },
		`duration: 1ms is out of range: use 1s to 24h0m0s`: func(o *Options) { o.Duration = time.Millisecond },
		`sessions: -1 is out of range: use 1 to 5000`:      func(o *Options) { o.Sessions = -1 },
		`unknown scenario "rude": use one of bad-keys, bu`: func(o *Options) { o.Only = []string{"drains", "rude"} },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}
