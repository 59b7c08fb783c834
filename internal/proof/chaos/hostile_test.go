package chaos

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// talk connects to a server with that behaviour, says something if it is upgraded, and returns all that comes back within a
// moment, or until the end.
func talk(t *testing.T, behave func(v *visit), say []byte, enough func(got []byte) bool) (got []byte, ended error) {
	t.Helper()
	s, err := startRaw(1, new(meter), behave)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		return nil, err // reset already
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	a := &attack{conn: conn.(*net.TCPConn), path: "/", dice: rand.New(rand.NewPCG(1, 1))}
	if ended = a.write([]byte(a.request(""))); ended == nil {
		if say != nil {
			ended = a.write(a.clientFrame(true, frame.Text, say))
		}
		for ended == nil && !enough(a.in) {
			ended = a.read()
		}
	}
	return a.in, ended
}

// Hostile servers do what their scenarios say.
func TestBehaviours(t *testing.T) {
	toTheEnd := func([]byte) bool { return false }
	has := func(text string) func([]byte) bool {
		return func(got []byte) bool { return bytes.Contains(got, []byte(text)) }
	}
	for _, test := range []struct {
		name   string
		behave func(v *visit)
		say    string
		enough func([]byte) bool
		want   string // at the end of what comes
	}{
		{"says-and-closes", sayAndClose, "", toTheEnd, "go away\"}" + string(closing(frame.PolicyViolation, reason))},
		{"closes-at-once", closeBehind101, "", toTheEnd, "\r\n\r\n" + string(closing(frame.PolicyViolation, reason))},
		{"too-much-at-once", tooMuchAtOnce, "", has(strings.Repeat("x", 100<<10)), "xxx"},
		{"ends", ends(closing(frame.InternalError, reason)), "hello", toTheEnd, string(closing(frame.InternalError, reason))},
		{"half a code", ends(plain(frame.Close, []byte{3})), "hello", toTheEnd, "\x88\x01\x03"},
		{"masked", masked, "hello", has("\x81\x85"), "\x81\x85"},
		{"stalls-in-frame", stallsInFrame, "hello", has(strings.Repeat("x", 400)), "x"},
		{"twice", echoes(twice), "hello", has("\x81\x05hello\x81\x05hello"), "\x81\x05hello\x81\x05hello"},
		{"late", echoes(late), "hello", has("\x81\x05hello"), "\x81\x05hello"},
		{"greets-late", greetsLate, "", has(`{"message": "hello"}`), `{"message": "hello"}`},
		{"never-pongs", neverPongs, "hello", has("\x81\x05hello"), "\x81\x05hello"},
		{"busy", alwaysBusy, "hello", toTheEnd, string(closing(frame.NormalClosure, ""))},
		{"refuses", refuses(429), "", toTheEnd, reason + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var say []byte
			if test.say != "" {
				say = []byte(test.say)
			}
			got, _ := talk(t, test.behave, say, test.enough)
			if !bytes.Contains(got, []byte(test.want)) {
				t.Errorf("got %.300q; want %q", got, test.want)
			}
		})
	}
	t.Run("foreign", func(t *testing.T) {
		got, _ := talk(t, echoes(foreign), []byte("hello"), func(got []byte) bool {
			found := false
			sim.Marks(got, func(m sim.Mark) { found = found || m.Session == foreignSession })
			return found
		})
		if len(got) == 0 {
			t.Error("no answer")
		}
	})
	t.Run("resets", func(t *testing.T) {
		if got, err := talk(t, resets, nil, toTheEnd); err == nil || err == io.EOF || len(got) > 0 {
			t.Errorf("got %q, %v; want a reset", got, err)
		}
	})
}

// A server counts the connected clients, and knows of none when all have left.
func TestRawServerCounts(t *testing.T) {
	m := new(meter)
	s, err := startRaw(1, m, func(v *visit) {
		if v.upgrade() {
			v.next()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a := &attack{conn: conn.(*net.TCPConn), path: "/", dice: rand.New(rand.NewPCG(1, 1))}
	if err := a.upgrade(""); err != nil {
		t.Fatal(err)
	}
	if got := m.read(); got.open != 1 || got.attempts != 1 {
		t.Errorf("with a client: %+v", got)
	}
	// The server answers the close frame, and has counted the client as gone before that.
	if err := a.write(a.clientFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))); err != nil {
		t.Fatal(err)
	}
	if err := a.expect(frame.NormalClosure); err != nil {
		t.Fatal(err)
	}
	if got := m.read(); got.open != 0 || got.peak != 1 {
		t.Errorf("without: %+v", got)
	}
	s.close()
}

// expect tells how a proxy ended a session from how it must.
func TestExpect(t *testing.T) {
	for _, test := range []struct {
		behave func(v *visit)
		want   string
	}{
		{ends(closing(frame.ProtocolError, "")), ""},
		{ends(closing(frame.NormalClosure, "")), "got close code 1000; want close code 1002"},
		{ends(nil), "got the end of the stream; want close code 1002"},
	} {
		s, err := startRaw(1, new(meter), test.behave)
		if err != nil {
			t.Fatal(err)
		}
		hostile := breaks(frame.ProtocolError, func(*attack) []byte { return plain(frame.Text, []byte("x")) })
		status, err := visitOnce(context.Background(), new(net.Dialer), s.listener.Addr().String(), "/", rand.New(rand.NewPCG(1, 1)), hostile)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want || status != "HTTP/1.1 101" {
			t.Errorf("got %q, %q; want %q", got, status, test.want)
		}
		s.close()
	}
}

// Whatever an operator does to the file, it is whole and says the same in the end.
func TestOperators(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // no pauses
	for _, s := range operators {
		operated := &service{name: "operated"}
		config := &configuration{
			file: filepath.Join(t.TempDir(), "config.yaml"), services: []string{"  operated: {}\n"}, backends: make(map[string]backend),
		}
		for _, name := range []string{"b1", "b2"} {
			operated.healthy = append(operated.healthy, &healthyServer{name: name})
			config.backends[name] = backend{service: "operated", url: "ws://127.0.0.1:9", connections: 9}
		}
		if err := config.write(config.text()); err != nil {
			t.Fatal(err)
		}
		o := &operator{ctx: ended, dice: rand.New(rand.NewPCG(1, 1)), config: config, journal: kit.NewJournal(nil), operated: operated}
		for range 5 {
			if err := s.operate(o); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		if config.writes < 6 {
			t.Errorf("%s: nothing was written", s.name)
		}
		text, err := os.ReadFile(config.file)
		_, got, _ := strings.Cut(string(text), "\n") // behind the line that counts
		_, want, _ := strings.Cut(string(config.text()), "\n")
		if err != nil || got != want || !strings.Contains(want, "  b2:\n    service: operated\n") {
			t.Errorf("%s: the file says, %v:\n%s\nwant\n%s", s.name, err, got, want)
		}
	}
}

// A simulated server that is hostile speaks the protocol of its service, so that sessions on it may succeed.
func TestSimulatedSpeaksItsProtocol(t *testing.T) {
	tried := 0
	for _, s := range servers {
		if s.name != "breaks-off" && s.name != "says-more" {
			continue
		}
		tried++
		v, err := newService(s.name, s.protocol, 0, 0, &s, sim.FailOptions{}, 1, kit.NewJournal(nil))
		if err != nil {
			t.Fatal(err)
		}
		report, err := hunt.Run(t.Context(), hunt.Options{
			URL: v.hostile.url, Protocol: v.protocol, Sessions: 50, Exact: true, Manners: hunt.Manners{hunt.CleanEnd: 1},
		})
		if err != nil || report.Completed == 0 || report.Lost > 0 && !s.allow.results {
			t.Errorf("%s: %v: %s", s.name, err, report.String())
		}
		v.stop()
	}
	if tried != 2 {
		t.Errorf("tried %d scenarios", tried)
	}
}
