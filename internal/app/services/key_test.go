package services

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// keyed are the profiles of services that ask for a key in the handshake, and how.
var keyed = []struct {
	profile, field string
	greets         *greeting
	pass           []string
	ahead          bool // if the backend has the key
}{
	{profile: "openai-realtime", field: "Authorization", greets: &greeting{websocket.MessageText, `{"type":"session.created"}`}},
	{profile: "speechmatics", field: "Authorization", ahead: true},
	{profile: "dashscope", field: "Authorization", ahead: true},
	{profile: "watson", field: "Authorization", ahead: true},
	{profile: "kyutai", field: "Kyutai-Api-Key", greets: &greeting{websocket.MessageBinary, "\x81\xa4type\xa5Ready"}, ahead: true},
	{profile: "deepgram", field: "Authorization"},
	{profile: "assemblyai", field: "Authorization"},
	{profile: "soniox", field: "Authorization"},
	{profile: "cartesia", field: "Authorization", ahead: true},
	{profile: "elevenlabs-tts", field: "Xi-Api-Key", ahead: true},
	{profile: "azure-speech", field: "Ocp-Apim-Subscription-Key"},
	{profile: "one-shot", field: "X-Own-Key", pass: []string{"header:X-Own-Key"}},
}

// A service that asks for a key in the handshake is never dialed without one, so that clients with good keys are served, and one
// with a bad key, or none, does not change that.
func TestKeysOfClients(t *testing.T) {
	t.Parallel()
	for _, c := range keyed {
		t.Run(c.profile, func(t *testing.T) {
			t.Parallel() // each waits for some seconds, when the server leaves its private connections unanswered
			r := newRig(t)
			server := startListening(t, c.field)
			server.greets = c.greets
			r.apply(func(content *config.Content) {
				putService(content, "s", func(s *config.Service) { s.Profile, s.Pass = c.profile, c.pass })
				putBackend(content, "a", "s", server.url("/"), 4, func(b *config.Backend) {
					if c.pass != nil {
						b.Warm = 0
					}
				})
			})
			ask := func() {
				t.Helper()
				conn, _, err := websocket.Dial(t.Context(), "ws://"+r.address+"/s", &websocket.DialOptions{HTTPHeader: http.Header{c.field: {goodKey}}})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.CloseNow()
				if c.greets != nil {
					if _, text, err := conn.Read(t.Context()); err != nil || string(text) != c.greets.text {
						t.Fatalf("greeted by %q, %v", text, err)
					}
				}
				if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"a":1}`)); err != nil {
					t.Fatal(err)
				}
				if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), "S3CRET") {
					t.Fatalf("answered %q, %v", text, err)
				}
			}
			ask()
			if _, refused := server.counts(); refused > 0 {
				t.Errorf("%d connections were dialed without a key", refused)
			}
			for i := range 12 { // twice as many as open the circuit
				header := http.Header{c.field: {"bad"}}
				if i%2 == 0 {
					header = nil
				}
				_, response, err := websocket.Dial(t.Context(), "ws://"+r.address+"/s", &websocket.DialOptions{HTTPHeader: header})
				if err == nil || response == nil || response.StatusCode != http.StatusUnauthorized {
					t.Fatalf("a client with the header %v: %v, %v; want the server's 401", header, response, err)
				}
			}
			ask()
			if b := r.backend("a"); b.Totals.DialFailed > 0 || b.CircuitOpened > 0 {
				t.Errorf("%+v, %+v", b.Totals, b.Health)
			}
		})
	}
}

// A client that leaves its key out gets a connection of its own, like those that bring one: what the server says to it is not said
// of connections that others share.
func TestKeylessClients(t *testing.T) {
	t.Parallel()
	for _, c := range keyed {
		p := newPlanOf(t, c.profile, c.pass, nil)
		if !p.passing.AlwaysPrivate {
			t.Errorf("%s: a client without a key shares connections", c.profile)
		}
		if p = newPlanOf(t, c.profile, c.pass, map[string]string{c.field: "Bearer env:KEY"}); p.backends[0].ahead != c.ahead && c.pass == nil {
			t.Errorf("%s: dialed ahead with the backend's own key: %v", c.profile, p.backends[0].ahead)
		}
		if p.passing.AlwaysPrivate == c.ahead && p.profile.Reuse != 0 {
			t.Errorf("%s: alone with the backend's own key: %v", c.profile, p.passing.AlwaysPrivate)
		}
	}
	for _, name := range []string{"one-shot", "vosk", "echo", "whisperlive", "vllm-realtime"} {
		if p := newPlanOf(t, name, nil, nil); p.passing.AlwaysPrivate || !p.backends[0].ahead {
			t.Errorf("%s: alone %v, dialed ahead %v", name, p.passing.AlwaysPrivate, p.backends[0].ahead)
		}
	}
}

// newPlanOf returns the plan for a service with one backend.
func newPlanOf(t *testing.T, profile string, pass []string, headers map[string]string) *servicePlan {
	t.Helper()
	content := config.NewContent()
	putService(&content, "s", func(s *config.Service) { s.Profile, s.Pass = profile, pass })
	putBackend(&content, "a", "s", "ws://127.0.0.1:1/", 4, func(b *config.Backend) {
		if b.Headers = headers; pass != nil {
			b.Warm = 0
		}
	})
	p := planOf(t, &content, nil)
	return p.services["s"]
}

// Where the backend carries the key, connections are dialed ahead with it, and clients share them whatever key they bring.
func TestKeyOfTheBackend(t *testing.T) {
	t.Setenv("SERVICE_KEY", "S3CRET")
	for _, c := range keyed {
		if !c.ahead {
			continue
		}
		t.Run(c.profile, func(t *testing.T) {
			t.Parallel() // each waits for some seconds, when the server leaves its private connections unanswered
			r := newRig(t)
			server := startListening(t, c.field)
			server.greets = c.greets
			r.apply(func(content *config.Content) {
				putService(content, "s", func(s *config.Service) { s.Profile = c.profile })
				putBackend(content, "a", "s", server.url("/"), 3, func(b *config.Backend) {
					b.Headers = map[string]string{strings.ToLower(c.field): "Bearer env:SERVICE_KEY"}
				})
			})
			r.idle("a", 3)
			conn, _, err := websocket.Dial(t.Context(), "ws://"+r.address+"/s", &websocket.DialOptions{HTTPHeader: http.Header{c.field: {"bad"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			b := r.backend("a")
			if b.Leased != 1 || b.Totals.DialFailed > 0 || b.State != pool.Enabled.String() {
				t.Errorf("%+v", b)
			}
			for _, v := range b.Variants {
				if strings.HasPrefix(v.Variant, pool.TransientPrefix) {
					t.Errorf("a connection of its own: %+v", v)
				}
			}
		})
	}
}

// A profile that inherits dials ahead where the server asks for no key.
func TestDialAheadByInheriting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startListening(t, "")
	server.greets = &greeting{websocket.MessageText, `{"type":"session.created"}`}
	r.apply(func(content *config.Content) {
		content.Profiles["ours"] = config.Profile{YAML: "from: openai-realtime\npredial: idle\nvariant: none\n"}
		putService(content, "s", func(s *config.Service) { s.Profile = "ours" })
		putBackend(content, "a", "s", server.url("/v1/realtime?model=m"), 3, nil)
	})
	r.idle("a", 3)
	conn, _, err := websocket.Dial(t.Context(), "ws://"+r.address+"/s?model=other", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if b := r.backend("a"); b.Leased != 1 {
		t.Errorf("%+v", b)
	}
}
