package load

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

func TestRequestFields(t *testing.T) {
	o := quick("ws://127.0.0.1:1/")
	o.Header, o.Subprotocol = []string{"Origin: https://a", "x-a:b:c\td ", "X-Empty:"}, "a.b"
	targets, err := o.Targets()
	if err != nil {
		t.Fatal(err)
	}
	header, err := targets[0].Resolve()
	want := http.Header{"Origin": {"https://a"}, "x-a": {"b:c\td"}, "X-Empty": {""}}
	if err != nil || !maps.EqualFunc(header, want, slices.Equal) || targets[0].Protocol != "a.b" {
		t.Errorf("%v, %+v, %s", err, header, targets[0].Protocol)
	}
	for text, want := range map[string]string{
		"Authorization":             "has no colon",
		"Authorization=Bearer key":  "header: field 1 has no colon: use a name and a value",
		": b":                       "has an invalid name",
		"X A: b":                    "has an invalid name",
		"X-Ä: b":                    "has an invalid name",
		"X:\r\nHost: evil":          "control character",
		"Host: evil":                "the handshake itself sets",
		"sec-websocket-KEY: a":      "the handshake itself sets",
		"Transfer-Encoding: a":      "the handshake itself sets",
		"Sec-WebSocket-Protocol: a": "the handshake itself sets",
	} {
		o.Header = []string{text}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Bearer key") {
			t.Errorf("%q: %v; want %q, and no secret", text, err, want)
		}
	}
	o.Header, o.Subprotocol = nil, "a,b"
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `subprotocol: invalid name "a,b"`) {
		t.Errorf("%v", err)
	}
}

// The kind of an error has no secret that a server repeated, as the error that hides it.
func TestKindHidesSecrets(t *testing.T) {
	err := fmt.Errorf("connecting: %w", secret.Sent{"s3cret"}.Error(fmt.Errorf("malformed answer: %w", errors.New(`"s3cret"`))))
	if got := Kind(err); got != `malformed answer: "(hidden)"` {
		t.Error(got)
	}
}
