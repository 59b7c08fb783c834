package admin_test

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// changing is the tokens of an API, which change while streams run, and a count of wrong ones. It is its guesses, too.
type changing struct {
	operator, reader atomic.Pointer[string]
	wrong            atomic.Int32
}

func (c *changing) set(operator, reader string) {
	c.operator.Store(&operator)
	c.reader.Store(&reader)
}

func (c *changing) Wait(netip.Addr) time.Duration { return 0 }
func (c *changing) Failed(netip.Addr, string)     { c.wrong.Add(1) }

func (c *changing) access() admin.Access {
	return admin.Access{
		Token: func() string { return *c.operator.Load() }, ReaderToken: func() string { return *c.reader.Load() }, Guesses: c,
		Trusted: func(*http.Request) string { return api.RoleReader },
		Peer: func(r *http.Request, operator, _ string) (string, bool, bool, error) {
			if r.Header.Get("Authorization") != "Proof once" {
				return "", false, false, nil
			}
			r.Header.Set("Authorization", "Proof used") // a proof holds for one request
			return "proxy b", operator == "a", false, nil
		},
	}
}

// A stream of events ends with the token that admitted its reader, before the next event and within the time of a heartbeat, and that is no wrong token of
// its address.
func TestStreamEndsWithItsToken(t *testing.T) {
	type tokens struct{ operator, reader string }
	const sendsNone = ""
	for name, c := range map[string]struct {
		sends  string
		before tokens
		after  tokens
		ends   bool
	}{
		"operators' token is replaced":           {"Bearer a", tokens{"a", "r"}, tokens{"b", "r"}, true},
		"readers' token is replaced":             {"Bearer r", tokens{"a", "r"}, tokens{"a", "s"}, true},
		"readers' token is removed":              {"Bearer r", tokens{"a", "r"}, tokens{"a", ""}, true},
		"the other token is replaced":            {"Bearer r", tokens{"a", "r"}, tokens{"b", "r"}, false},
		"operators' token becomes readers'":      {"Bearer a", tokens{"a", "r"}, tokens{"b", "a"}, false},
		"no token was needed, and one is now":    {sendsNone, tokens{}, tokens{"a", ""}, true},
		"no token was needed, now for operators": {"Bearer a", tokens{}, tokens{"a", ""}, false},
		"only readers have a token":              {sendsNone, tokens{}, tokens{"", "r"}, false},
		"the tokens are removed":                 {"Bearer a", tokens{"a", "r"}, tokens{}, false},
		"another proxy, nothing changes":         {"Proof once", tokens{"a", "r"}, tokens{"a", "r"}, false},
		"another proxy, the token is replaced":   {"Proof once", tokens{"a", "r"}, tokens{"b", "r"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, quiet := range []bool{false, true} {
				var s stream
				var now changing
				now.set(c.before.operator, c.before.reader)
				audit := admin.NewAudit(slog.New(slog.DiscardHandler))
				connected(t, s.handlerFor(now.access(), audit), func(t *testing.T, client net.Conn) {
					s.events = make(chan []byte, 1)
					var header []string
					if c.sends != sendsNone {
						header = append(header, "Authorization: "+c.sends+"\r\n")
					}
					response, lines := subscribe(t, client, "/api/v1/events", header...)
					if response.StatusCode != http.StatusOK {
						t.Fatal(response.Status)
					}
					expectLines(t, lines, "retry: 2000", "", ":", "")
					now.set(c.after.operator, c.after.reader)
					begun := time.Now()
					if !quiet {
						s.events <- []byte("data: {}\n\n")
					}
					ended := !lines.Scan()
					if ended != c.ends || lines.Err() != nil || time.Since(begun) > 15*time.Second {
						t.Errorf("quiet: %v: ended: %v (%q, %v) after %v; want %v", quiet, ended, lines.Text(), lines.Err(), time.Since(begun), c.ends)
					}
				})
				if actions, _ := audit.Since(0); len(actions) != 0 || now.wrong.Load() != 0 {
					t.Errorf("the audit log has %+v, and %d wrong tokens were counted", actions, now.wrong.Load())
				}
			}
		})
	}
}

// A tap ends with the operators' token, with a reason and without what was to be sent; readers may not tap, so also if it becomes that of readers.
func TestTapEndsWithItsToken(t *testing.T) {
	for name, after := range map[string][2]string{"replaced": {"b", "r"}, "of readers": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			var now changing
			now.set("a", "r")
			var tap *playedTap
			handler := admin.Handler(admin.Source{
				Metrics: http.NotFoundHandler(), Configuration: http.NotFoundHandler(), Audit: admin.NewAudit(slog.New(slog.DiscardHandler)),
				Tap: func(api.TapQuery) (admin.Tap, error) { return tap, nil },
			}, now.access())
			connected(t, handler.ServeHTTP, func(t *testing.T, client net.Conn) {
				tap = newPlayedTap() // of this bubble
				response, lines := subscribe(t, client, "/api/v1/tap?session=q7m2kd4x-1042", "Authorization: Bearer a\r\n")
				if response.StatusCode != http.StatusOK {
					t.Fatal(response.Status)
				}
				go func() { tap.events <- api.TapEvent{Event: api.TapFrame} }()
				expectLines(t, lines, `{"time":"0001-01-01T00:00:00Z","event":"frame"}`)
				now.set(after[0], after[1])
				go func() { tap.events <- api.TapEvent{Event: api.TapFrame, Text: "secret"} }()
				var last api.TapEvent
				if !lines.Scan() || json.Unmarshal(lines.Bytes(), &last) != nil || last.Event != api.TapEnd || last.Text != "" ||
					last.Reason != "the admin API no longer admits this reader: the tokens have changed" {
					t.Errorf("the last line is %q", lines.Text())
				}
				if lines.Scan() || lines.Err() != nil {
					t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
				}
				<-tap.closed
			})
		})
	}
}
