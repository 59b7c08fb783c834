package relay

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const withModels = `
profiles:
  p:
    from: echo
    variant:
      query: [model]
      allow: {model: [en, ja]}
      default: {model: en}
      private: {query: [token], headers: [Api-Key]}
      other: refuse`

// askFor begins a session with a query and further header lines.
func (r *rig) askFor(query string, header ...string) *wstest.Peer {
	r.T.Helper()
	p := r.Connect(wstest.UpgradeRequest("/v1/test"+query, header...))
	p.ExpectUpgrade()
	return p
}

// talk exchanges a message over a session, which shows which connection it has.
func talk(t testing.TB, client, server *wstest.Peer, text string) {
	t.Helper()
	client.Send(frame.Text, text)
	server.Expect(frame.Text, text)
	server.Send(frame.Text, text)
	client.Expect(frame.Text, text)
}

// Each variant has connections of its own, dialed with its parameters, and shared by those who ask for them in any way.
func TestVariants(t *testing.T) {
	r := newRig(t, setup{Cap: 2, Queue: 4, Backend: func(o *backend.Options) {
		withYAML(t, withModels)(o)
		o.Settings.Warm = 0
	}})
	first := r.askFor("")
	en := r.Accepted()
	if en.Request.URL.RequestURI() != "/?model=en" {
		t.Errorf("dialed with %q", en.Request.URL.RequestURI())
	}
	talk(t, first, en, "hello")
	second := r.askFor("?model=ja")
	ja := r.Accepted()
	if ja.Request.URL.RequestURI() != "/?model=ja" {
		t.Errorf("dialed with %q", ja.Request.URL.RequestURI())
	}
	talk(t, second, ja, "konnichiwa")
	first.CloseNormally()
	second.CloseNormally()
	for range 3 {
		first, second = r.askFor("?model=ja"), r.askFor("?model=en")
		talk(t, first, ja, "ja")
		talk(t, second, en, "en")
		first.CloseNormally()
		second.CloseNormally()
	}
	if s := r.Backend.Stats(); s.Totals.Dialed != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// Values that are not listed, and parameters that the profile does not know, are refused.
func TestVariantsRefused(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, withModels)})
	for query, text := range map[string]string{
		"?model=de":          `invalid value "de" for parameter model: use one of en, ja`,
		"?model=en&model=ja": "parameter model is given more than once",
		"?lang=en":           `unknown parameter "lang": use one of model, token`,
		"?model=%zz":         "the query of the URL is malformed",
	} {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test" + query))
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusBadRequest || strings.TrimSpace(string(body)) != text {
			t.Errorf("%s: %s, %q, %v; want 400, %q", query, response.Status, body, err, text)
		}
		_ = p.Close()
	}
}

// A connection with a client's own secret serves that client only, and is closed when it has gone, although the profile would
// let it be used again.
func TestPrivateVariants(t *testing.T) {
	r := newRig(t, setup{Cap: 3, Queue: 4, Backend: func(o *backend.Options) {
		withYAML(t, withModels)(o)
		o.Settings.Warm = 0
	}})
	one := r.askFor("?token=secret", "Api-Key: k1")
	server := r.Accepted()
	if server.Request.URL.RequestURI() != "/?token=secret&model=en" || !slices.Equal(server.Request.Header["Api-Key"], []string{"k1"}) {
		t.Errorf("dialed with %q, %v", server.Request.URL.RequestURI(), server.Request.Header)
	}
	talk(t, one, server, "one")
	two := r.askFor("?token=secret", "Api-Key: k1") // the same secret, but who knows whose
	other := r.Accepted()
	talk(t, two, other, "two")
	one.CloseNormally()
	server.ExpectClose(frame.GoingAway, "served its client")
	_ = server.Close()
	two.CloseNormally()
	other.ExpectClose(frame.GoingAway, "served its client")
	_ = other.Close()
	three := r.askFor("")
	plain := r.Accepted()
	if plain.Request.URL.RequestURI() != "/?model=en" || plain.Request.Header["Api-Key"] != nil {
		t.Errorf("dialed with %q, %v", plain.Request.URL.RequestURI(), plain.Request.Header)
	}
	talk(t, three, plain, "three")
	three.CloseNormally()
	for _, v := range r.Backend.Variants() {
		if strings.Contains(v.Variant, "secret") || strings.Contains(v.Variant, "k1") {
			t.Errorf("the name of a variant tells a secret: %q", v.Variant)
		}
	}
}

// A client that leaves before its own connection was dialed leaves nothing behind, and its server is not blamed.
func TestPrivateClientLeaves(t *testing.T) {
	r := newRig(t, setup{Cap: 1, Queue: 4, Backend: withYAML(t, withModels)})
	holder := r.askFor("")
	server := r.Accepted()
	if server.Request.URL.RequestURI() != "/?model=en" {
		t.Errorf("the connection that is kept warm was dialed with %q", server.Request.URL.RequestURI())
	}
	talk(t, holder, server, "here")
	waiter := r.Connect(wstest.UpgradeRequest("/v1/test?token=x"))
	wstest.Eventually(t, "the client waits", func() bool { return r.Group.Queue().Waiting == 1 })
	_ = waiter.Close()
	wstest.Eventually(t, "the client has left", func() bool { return r.Group.Queue().Waiting == 0 })
	holder.CloseNormally()
	again := r.askFor("")
	talk(t, again, server, "again")
	again.CloseNormally()
	wstest.Eventually(t, "the server is known to be reachable", func() bool { return r.Backend.Health().Reachable })
	if s, h := r.Backend.Stats(), r.Backend.Health(); s.Totals.DialFailed != 0 || !h.Reachable {
		t.Errorf("stats: %+v, %+v", s, h)
	}
}

// Clients that set what sticks get connections that others with the same settings have used, or fresh ones; when there is no
// room for one, the connection that was used longest ago makes some.
func TestSettingsOfOthers(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Cap: 2, Queue: 4, Script: &wstest.Server{Serve: vosk}})
	for range 3 {
		for _, rate := range []string{"8000", "16000", "44100"} {
			client := r.Connect(wstest.UpgradeRequest("/v1/test"))
			client.ExpectUpgrade()
			client.Send(frame.Text, `{"config" : {"sample_rate" : `+rate+`}}`)
			client.Send(frame.Binary, "audio")
			client.Expect(frame.Text, `{"partial" : "`+rate+`"}`)
			client.Send(frame.Text, voskEnd)
			client.Expect(frame.Text, `{"text" : "`+rate+`"}`)
			client.ExpectClose(frame.NormalClosure, "the session is over")
			_ = client.Close()
		}
	}
	if n := r.Group.Queue().Waiting; n != 0 {
		t.Errorf("%d clients wait", n)
	}
}

// vosk plays Vosk's server: the first configuration sticks, and each answer names it.
func vosk(p *wstest.Peer) {
	rate, begun := "none", false
	say := func(text string) bool {
		_, err := p.Write(p.Encode(true, frame.Text, []byte(text)))
		return err == nil
	}
	for {
		h, payload, err := p.Next()
		text := string(payload)
		switch {
		case err != nil || h.Opcode == frame.Close:
			return
		case strings.Contains(text, "config"):
			if !begun {
				rate = strings.Trim(text[strings.LastIndex(text, ":")+1:], " }")
			}
			continue
		case text == voskReset:
			text = `{"text" : "` + rate + `"}`
		default:
			text, begun = `{"partial" : "`+rate+`"}`, true
		}
		if !say(text) {
			return
		}
	}
}
