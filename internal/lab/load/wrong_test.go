package load

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Every way in which a server can answer wrongly is noticed and counted as what it is. The load is 160 messages from
// four clients.
func TestRunNoticesWrongAnswers(t *testing.T) {
	type expectation struct {
		lost, mixed, failed int64
		kind                string
	}
	write := func(c *websocket.Conn, kind int, messages ...[]byte) error {
		for _, m := range messages {
			if err := c.WriteMessage(kind, m); err != nil {
				return err
			}
		}
		return nil
	}
	// at returns a session that calls answer for message 20 of each connection, and echoes the others.
	at := func(answer func(c *websocket.Conn, kind int, message []byte) error) func(*websocket.Conn) error {
		return wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
			if number == 20 {
				return answer(c, kind, message)
			}
			return write(c, kind, message)
		})
	}
	held := func() func(*websocket.Conn) error { // answers message 20 after message 21
		return func(c *websocket.Conn) error {
			var first []byte
			return wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
				switch number {
				case 20:
					first = slices.Clone(message)
					return nil
				case 21:
					return write(c, kind, message, first)
				}
				return write(c, kind, message)
			})(c)
		}
	}
	for name, c := range map[string]struct {
		session func(*websocket.Conn) error
		want    expectation
	}{
		"drops one": {
			at(func(*websocket.Conn, int, []byte) error { return nil }),
			expectation{lost: 4, kind: missing},
		},
		"drops the last": {
			wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
				if number == 40 {
					return nil
				}
				return write(c, kind, message)
			}),
			expectation{lost: 4, kind: missing},
		},
		"drops the first": {
			wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
				if number == 0 {
					return nil
				}
				return write(c, kind, message)
			}),
			expectation{lost: 4, kind: missing},
		},
		"alters a byte of the head": {
			at(func(c *websocket.Conn, kind int, m []byte) error { m[9] ^= 1; return write(c, kind, m) }),
			expectation{lost: 4, mixed: 4, kind: foreign},
		},
		"alters a byte of the body": {
			at(func(c *websocket.Conn, kind int, m []byte) error { m[50] ^= 1; return write(c, kind, m) }),
			expectation{mixed: 4, kind: wrongContent},
		},
		"alters the last byte": {
			at(func(c *websocket.Conn, kind int, m []byte) error { m[len(m)-1] ^= 1; return write(c, kind, m) }),
			expectation{mixed: 4, kind: wrongContent},
		},
		"cuts a byte off": {
			at(func(c *websocket.Conn, kind int, m []byte) error { return write(c, kind, m[:len(m)-1]) }),
			expectation{mixed: 4, kind: wrongLength},
		},
		"adds a byte": {
			at(func(c *websocket.Conn, kind int, m []byte) error { return write(c, kind, append(m, '.')) }),
			expectation{mixed: 4, kind: wrongLength},
		},
		"answers with nothing": {
			at(func(c *websocket.Conn, kind int, _ []byte) error { return write(c, kind, nil) }),
			expectation{lost: 4, mixed: 4, kind: wrongLength},
		},
		"answers in another kind": {
			at(func(c *websocket.Conn, _ int, m []byte) error { return write(c, websocket.BinaryMessage, m) }),
			expectation{mixed: 4, kind: wrongKind},
		},
		"answers twice": {
			at(func(c *websocket.Conn, kind int, m []byte) error { return write(c, kind, m, m) }),
			expectation{mixed: 4, kind: repeated},
		},
		"answers out of order": {held(), expectation{lost: 4, kind: outOfOrder}},
		"answers what was not sent": {
			at(func(c *websocket.Conn, kind int, m []byte) error {
				invented := slices.Clone(m)
				copy(invented[16:], "00ffffff")
				return write(c, kind, m, invented)
			}),
			expectation{mixed: 4, kind: notSent},
		},
		"closes": {
			at(func(c *websocket.Conn, _ int, _ []byte) error {
				return write(c, websocket.CloseMessage, websocket.FormatCloseMessage(1011, "broken"))
			}),
			expectation{failed: 4, kind: "closed with 1011"},
		},
		"vanishes": {
			at(func(c *websocket.Conn, _ int, _ []byte) error { return c.Close() }),
			expectation{failed: 4},
		},
		"breaks the protocol": {
			at(func(c *websocket.Conn, _ int, _ []byte) error {
				_, err := c.NetConn().Write([]byte{0xff, 0})
				return err
			}),
			expectation{failed: 4, kind: "protocol broken: reserved bits set without a negotiated extension"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick(wstest.StartLibraryServer(t, c.session).URL)
			switch name { // cases in which the client waits for an echo that never comes
			case "drops the first":
				o.ConnectTimeout = time.Second
			case "drops the last":
				o.Drain = time.Second
			}
			r := mustRun(t, o)
			if got := (expectation{r.Lost, r.Mixed, r.Failed, c.want.kind}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if c.want.kind != "" && r.Errors[c.want.kind] != max(c.want.lost, c.want.mixed, c.want.failed) {
				t.Errorf("errors %v; want %q", r.Errors, c.want.kind)
			}
			if r.Err() == nil {
				t.Error("the result says that all is well")
			}
		})
	}
}

// A server that gives one client's answer to another is what the load generator must not miss.
func TestRunNoticesSwappedClients(t *testing.T) {
	var mu sync.Mutex
	var other *websocket.Conn
	var others []byte
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if number == 10 && other == nil {
			other, others = c, bytes.Clone(message)
			return nil
		}
		if others != nil && c != other {
			if err := c.WriteMessage(kind, others); err != nil {
				return err
			}
			others = nil
			return other.WriteMessage(kind, message)
		}
		return c.WriteMessage(kind, message)
	}))
	r := mustRun(t, quick(s.URL))
	if r.Mixed != 2 || r.Lost != 2 || r.Failed != 0 || r.Errors[foreign] != 2 {
		t.Errorf("mixed %d, lost %d, failed %d, %v; want 2, 2, 0", r.Mixed, r.Lost, r.Failed, r.Errors)
	}
}
