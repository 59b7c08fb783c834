//go:build unix

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestPass has ordinary clients bring keys in every way that there is, through the real program, to a server that shows what it got
// and repeats a bad key in its refusal.
func TestPass(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := fmt.Sprintf("%s|%s|%s", r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Sec-WebSocket-Protocol"))
		if strings.Contains(said, "bad") {
			http.Error(w, "not known: "+said, http.StatusUnauthorized)
			return
		}
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}, InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		_ = c.Write(r.Context(), websocket.MessageText, []byte(said))
		_, _, _ = c.Read(r.Context())
	}))
	t.Cleanup(h.Close)
	p := startProxy(t, "--backend", "ws"+strings.TrimPrefix(h.URL, "http")+"/api", "--path", "/v1", "--pass", "path,query", "--pass",
		"header:authorization,subprotocol", "--warm", "0", "--connections", "4", "--log-level", "debug")
	dial := func(target, key string, offers ...string) (*websocket.Conn, *http.Response, error) {
		ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
		defer cancel()
		options := &websocket.DialOptions{Subprotocols: offers}
		if key != "" {
			options.HTTPHeader = http.Header{"Authorization": {key}}
		}
		return websocket.Dial(ctx, p.url(target), options)
	}
	for _, c := range []struct {
		target, key string
		offers      []string
		want        string
	}{
		{"/v1/listen?model=a%2Fb&x=1&x=2", "Token S3CRET-1", nil, "/api/listen?model=a%2Fb&x=1&x=2|Token S3CRET-1|"},
		{"/v1?token=S3CRET-2", "", nil, "/api?token=S3CRET-2||"},
		{"/v1/realtime", "", []string{"realtime", "openai-insecure-api-key.S3CRET-3"}, "/api/realtime||realtime, openai-insecure-api-key.S3CRET-3"},
		{"/v1", "", nil, "/api||"},
	} {
		conn, _, err := dial(c.target, c.key, c.offers...)
		if err != nil {
			t.Fatalf("%s: %v", c.target, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
		_, got, err := conn.Read(ctx)
		cancel()
		if err != nil || string(got) != c.want {
			t.Errorf("the server got %q, %v; want %q", got, err, c.want)
		}
		if granted := conn.Subprotocol(); granted != "" != (c.offers != nil) {
			t.Errorf("%s: granted %q", c.target, granted)
		}
		_ = conn.CloseNow()
	}
	_, response, err := dial("/v1?token=bad-S3CRET-4", "bad-S3CRET-5")
	if err == nil || response == nil || response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("the server's refusal: %v, %v", response, err)
	}
	if body, _ := io.ReadAll(response.Body); !strings.Contains(string(body), "not known: /api?token=bad-S3CRET-4|bad-S3CRET-5|") {
		t.Errorf("its client gets %q", body)
	}
	for _, path := range []string{"/api/v1/stats", "/api/v1/config", "/metrics"} {
		if _, body := p.get(path); strings.Contains(body, "S3CRET") {
			t.Errorf("%s tells a secret: %s", path, body)
		}
	}
	p.stop()
	for _, line := range p.stderr.Lines() {
		if strings.Contains(line, "S3CRET") {
			t.Errorf("the log tells a secret: %s", line)
		}
	}
}
