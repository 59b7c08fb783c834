package sim

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// presented is a key in the opening handshake.
type presented struct {
	query, authorization string
	xi                   string // xi-api-key
	subscription         string // Ocp-Apim-Subscription-Key
	offers               []string
	accepted             string // the subprotocol that the server accepts
}

// dialWith connects with a key.
func dialWith(t *testing.T, s *Server, p presented) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	header := http.Header{}
	if p.authorization != "" {
		header.Set("Authorization", p.authorization)
	}
	if p.xi != "" {
		header.Set("Xi-Api-Key", p.xi)
	}
	if p.subscription != "" {
		header.Set("Ocp-Apim-Subscription-Key", p.subscription)
	}
	c, response, err := websocket.Dial(wstest.Context(t), s.URL()+"/"+p.query, &websocket.DialOptions{HTTPHeader: header, Subprotocols: p.offers})
	if err == nil {
		t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, response, err
}

// goodKeys are the ways in which clients present the key "good", bad ones the same with another key, or none.
var goodKeys = map[string][]presented{
	Deepgram: {
		{authorization: "Token good"},
		{authorization: "token good"},
		{authorization: "Bearer good"},
		{offers: []string{"token", "good"}, accepted: "token"},
		{offers: []string{"bearer", "good"}, accepted: "bearer"},
	},
	AssemblyAI:   {{authorization: "good"}, {query: "?token=good"}},
	Speechmatics: {{authorization: "Bearer good"}, {query: "?jwt=good&sm-sdk=x"}},
	Soniox:       {{authorization: "Bearer good"}, {offers: []string{"soniox-api-key", "good"}, accepted: "soniox-api-key"}},
	OpenAIRealtime: {
		{authorization: "Bearer good"},
		{offers: []string{"realtime", "openai-insecure-api-key.good", "openai-beta.realtime-v1"}, accepted: "realtime"},
	},
	OpenAITranslations: {{authorization: "Bearer good"}},
	Cartesia:           {{authorization: "Bearer good"}, {query: "?api_key=good"}, {query: "?access_token=good"}},
	ElevenLabsTTS:      {{xi: "good"}},
	AzureSpeech:        {{subscription: "good"}, {authorization: "Bearer good"}},
}

var badKeys = map[string][]presented{
	Deepgram: {
		{},
		{authorization: "Token bad"},
		{authorization: "good"},
		{authorization: "Basic good"},
		{query: "?token=good"},
		{offers: []string{"token", "bad"}},
		{offers: []string{"good"}},
		{authorization: "Token bad", offers: []string{"token", "good"}},
	},
	AssemblyAI:         {{}, {authorization: "bad"}, {authorization: "Bearer good"}, {query: "?token=bad"}, {query: "?jwt=good"}},
	Speechmatics:       {{}, {authorization: "Bearer bad"}, {authorization: "good"}, {query: "?jwt=bad"}, {query: "?token=good"}},
	Soniox:             {{}, {authorization: "Bearer bad"}, {authorization: "good"}, {offers: []string{"soniox-api-key", "bad"}}, {offers: []string{"good"}}},
	Cartesia:           {{}, {authorization: "Bearer bad"}, {authorization: "good"}, {query: "?api_key=bad"}},
	ElevenLabsTTS:      {{}, {xi: "bad"}, {authorization: "Bearer good"}},
	AzureSpeech:        {{}, {subscription: "bad"}, {authorization: "good"}},
	OpenAIRealtime:     {{}, {authorization: "Bearer bad"}, {offers: []string{"realtime", "openai-insecure-api-key.bad"}}, {offers: []string{"realtime", "good"}}},
	OpenAITranslations: {{}, {authorization: "Bearer bad"}},
}

func TestGoodKey(t *testing.T) {
	first := map[string]string{
		Deepgram:           "> {\"type\":\"Finalize\"}\n< Results",
		AssemblyAI:         "< Begin",
		Speechmatics:       "> {\"message\": \"StartRecognition\"}\n< RecognitionStarted",
		Soniox:             "> {\"model\": \"m\", \"audio_format\": \"auto\"}\n> {\"type\": \"finalize\"}\n< <fin>",
		OpenAIRealtime:     "< session.created",
		Cartesia:           "> {\"model_id\": \"m\", \"context_id\": \"a\"}\n< done",
		ElevenLabsTTS:      "> {\"text\": \"a\", \"flush\": true}\n< audio",
		OpenAITranslations: "< session.created",
	}
	for protocol, ways := range goodKeys {
		t.Run(protocol, func(t *testing.T) {
			for _, byStatus := range []bool{false, true} {
				s := start(t, Options{Protocol: protocol, APIKey: "good", RefuseByStatus: byStatus})
				for _, way := range ways {
					c, _, err := dialWith(t, s, way)
					if err != nil {
						t.Errorf("%+v: %v", way, err)
						continue
					}
					if c.Subprotocol() != way.accepted {
						t.Errorf("%+v: accepted %q", way, c.Subprotocol())
					}
					if protocol == AzureSpeech { // whose messages have several lines
						say(t, c, websocket.MessageText, []byte("Path:speech.context\r\n\r\n{}"))
						hear(t, c)
					}
					converse(t, c, 7, first[protocol])
				}
				if got := s.Stats(); got.Refused != 0 || got.BadRequests != 0 {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

// Without a key of its own a server takes everything, as before.
func TestNoKeyAsked(t *testing.T) {
	for protocol, ways := range badKeys {
		s := start(t, Options{Protocol: protocol})
		for _, way := range ways {
			if _, _, err := dialWith(t, s, way); err != nil {
				t.Errorf("%s, %+v: %v", protocol, way, err)
			}
		}
	}
}

func TestBadKeyByStatus(t *testing.T) {
	for protocol, body := range map[string]string{
		Deepgram:       `{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials.","request_id":"`,
		AssemblyAI:     `{"error":"Unauthorized"}`,
		Speechmatics:   `{"code":401,"error":"Permission Denied"}`,
		Soniox:         `{"error_code":401,"error_message":"Invalid API key."}`,
		OpenAIRealtime: `"type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		Cartesia:       `{"error_code":"unauthorized","title":"Unauthorized","message":"Invalid API key.","request_id":"`,
		AzureSpeech:    `{"error":{"code":"401",`,
		ElevenLabsTTS:  `{"detail":{"status":"invalid_api_key","message":"Invalid API key"}}`,
	} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, Options{Protocol: protocol, APIKey: "good", RefuseByStatus: true, Sessions: 1})
			for _, way := range badKeys[protocol] {
				_, response, err := dialWith(t, s, way)
				if err == nil {
					t.Errorf("%+v: accepted", way)
					continue
				}
				got, _ := io.ReadAll(response.Body)
				if response.StatusCode != http.StatusUnauthorized || !strings.Contains(string(got), body) ||
					response.Header.Get("Content-Type") != "application/json" || len(response.Header["Content-Type"]) != 1 {
					t.Errorf("%+v: got %s, %v, %s", way, response.Status, response.Header, got)
				}
				if protocol == Deepgram && (response.Header.Get("dg-error") != string(got) || !strings.Contains(string(got), response.Header.Get("dg-request-id"))) {
					t.Errorf("%+v: got %v", way, response.Header)
				}
			}
			if got, want := s.Stats(), (Stats{Refused: uint64(len(badKeys[protocol]))}); got != want {
				t.Errorf("got %+v; want %+v", got, want)
			}
		})
	}
}

// Where the service accepts the upgrade before it looks at the key, it says so in a message, and closes, whatever the client says.
func TestBadKeyByMessage(t *testing.T) {
	for protocol, want := range map[string]string{
		AssemblyAI:     "< \"type\":\"Error\",\"error_code\":1008,\"error\":\"Unauthorized Connection: (Missing|Invalid)\n< close 1008",
		OpenAIRealtime: "< ^{\"type\":\"error\",.*\"code\":\"invalid_api_key\"\n< close 3000",
		ElevenLabsTTS:  "< ^{\"message\":\"Invalid API key\",\"error\":\"invalid_api_key\",\"code\":1008}$\n< close 1008",
	} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, Options{Protocol: protocol, APIKey: "good"})
			for _, way := range badKeys[protocol] {
				c, _, err := dialWith(t, s, way)
				if err != nil {
					t.Errorf("%+v: %v", way, err)
					continue
				}
				converse(t, c, 7, want)
			}
		})
	}
}

func TestKeyOptions(t *testing.T) {
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Protocol: Deepgram, APIKey: "abc-DEF_0.~"}, ""},
		{Options{Protocol: Vosk, APIKey: "k"}, "api key: the protocol vosk takes none: use one of deepgram, assemblyai, speechmatics, soniox, openai-realtime, openai-translations"},
		{Options{APIKey: "k"}, "api key: the protocol echo takes none"},
		{Options{Protocol: Deepgram, APIKey: "two words"}, `api key: it has characters that a subprotocol cannot have: use letters, digits`},
		{Options{Protocol: Deepgram, APIKey: "a,b"}, `api key: it has characters`},
		{Options{Protocol: Deepgram, RefuseByStatus: true}, "refuse by status: no client is refused without an API key: set one"},
	} {
		err := test.options.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: got %v; want %q", test.options, err, test.want)
		}
	}
}
