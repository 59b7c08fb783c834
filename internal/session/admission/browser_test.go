package admission_test

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A page of another origin does not connect as its visitor, unless the service says so. Requests without what browsers add are let in.
func TestBrowsersCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		cookies bool
		origins []string
		header  string
		status  int
	}{
		"no browser":                            {true, nil, "Cookie: sid=1\r\n", 101},
		"the own page":                          {true, nil, "Origin: http://127.0.0.1\r\nCookie: sid=1\r\n", 101},
		"another page":                          {true, nil, "Origin: https://evil.example\r\nCookie: sid=1\r\n", 403},
		"another page without a cookie":         {true, nil, "Origin: https://evil.example\r\n", 101},
		"a service that takes no cookies":       {false, nil, "Origin: https://evil.example\r\nCookie: sid=1\r\n", 101},
		"an origin that is named":               {true, []string{"https://app.example"}, "Origin: https://app.example\r\nCookie: sid=1\r\n", 101},
		"the own page where another is named":   {true, []string{"https://app.example"}, "Origin: http://127.0.0.1\r\nCookie: sid=1\r\n", 403},
		"another page where all may":            {true, []string{"*"}, "Origin: https://evil.example\r\nCookie: sid=1\r\n", 101},
		"a page that has no origin, a sandbox":  {true, nil, "Origin: null\r\nCookie: sid=1\r\n", 403},
		"another page without cookies, refused": {true, []string{"https://app.example"}, "Origin: https://evil.example\r\n", 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Service: func(s *route.Service) { s.Cookies, s.Origins = c.cookies, c.origins }})
			r.AllReady(1, r.Backends...)
			request := strings.Replace(wstest.UpgradeRequest("/v1/test"), "Host: ", c.header+"Host: ", 1)
			request = strings.Replace(request, "Host: "+hostOf(request), "Host: 127.0.0.1", 1)
			_, response := r.Request(request)
			if response.StatusCode != c.status {
				t.Errorf("status %d; want %d", response.StatusCode, c.status)
			}
		})
	}
}

// hostOf returns the value of a request's header Host.
func hostOf(request string) string {
	_, rest, _ := strings.Cut(request, "Host: ")
	host, _, _ := strings.Cut(rest, "\r\n")
	return host
}
