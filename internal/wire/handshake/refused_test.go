package handshake

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Whatever a server repeats of the request, the secrets that the proxy itself has put into it are hidden. A client may see its own values.
func TestRefusalHidesOwnSecrets(t *testing.T) {
	const top, key, literal = "TOPSECRET", "K+Y/SECRET", "LITERALSECRET"
	echo := func(r *http.Request) string {
		credential := r.Header.Get("Authorization")
		body := fmt.Sprintf("Authorization: %s %s %s\n%s %s %s", credential, r.URL.Query().Get("key"), r.Header.Get("X-Own"),
			base64.StdEncoding.EncodeToString([]byte(top)), literal, r.URL.Query().Get("model"))
		return fmt.Sprintf("HTTP/1.1 403 %s\r\nX-Err: %s\r\nX-%s: 1\r\nX-Credential: %s\r\nContent-Length: %d\r\n\r\n%s", credential, r.RequestURI, top, credential, len(body), body)
	}
	long := func(*http.Request) string {
		return "HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", maxRefusalBody-5) + top
	}
	packed := func(*http.Request) string {
		return "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: 6\r\n\r\npacked"
	}
	malformed := func(*http.Request) string { return "HTTP/1.1 400 Bad Request\r\n" + top + "\r\n\r\n" }
	protocol := func(r *http.Request) string { return upgraded("", "Sec-WebSocket-Protocol: "+top)(r) }
	dial := func(answer reply) error {
		target := scripted(t, answer, nil)
		target.request += "&key=env:KEY&api_key=" + literal
		target.Resolve = func() (http.Header, error) {
			return http.Header{"Authorization": {"Bearer " + top}, "X-Short": {"abc"}}, nil
		}
		target.ResolveQuery = func(query string) (string, error) { return strings.Replace(query, "env:KEY", "K%2BY%2FSECRET", 1), nil }
		_, err := target.With(ClientPart{Query: "model=small", Header: []Field{{"X-Own", "client"}}}).Dial(t.Context())
		return err
	}
	for name, answer := range map[string]reply{"echo": echo, "long": long, "packed": packed, "malformed": malformed, "protocol": protocol} {
		err := dial(answer)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		all := err.Error()
		status := (*StatusError)(nil)
		if errors.As(err, &status) {
			all += fmt.Sprint(status.Text, status.Header, string(status.Body), status.Refusal())
		}
		for _, secret := range []string{top, key, "K%2BY%2FSECRET", literal, "VE9QU0VDUkVU", "TOPSE", "packed", "Topsecret"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s: %s is shown: %.500q", name, secret, all[max(0, len(all)-500):])
			}
		}
		if name == "packed" && strings.Count(string(status.Refusal().Append(nil)), "\nContent-Type:") != 1 {
			t.Errorf("%q", status.Refusal().Append(nil))
		}
		if name == "echo" && (status.Header.Get("X-Err") != "/v1/stt?lang=ja&key=(hidden)&api_key=(hidden)&model=small" ||
			string(status.Body) != "Authorization: (hidden) (hidden) client\n(hidden) (hidden) small") {
			t.Errorf("%q, %q", status.Header, status.Body)
		}
	}
}
