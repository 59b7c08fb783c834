package client

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]target{
		"127.0.0.1:9090":         {base: "http://127.0.0.1:9090"},
		"[::1]:9090":             {base: "http://[::1]:9090"},
		":9090":                  {base: "http://localhost:9090"},
		"http://gpu:9090/":       {base: "http://gpu:9090"},
		"https://gpu:9090":       {base: "https://gpu:9090"},
		"unix:/run/admin.sock":   {base: "http://localhost", socket: "/run/admin.sock"},
		"unix:///run/admin.sock": {base: "http://localhost", socket: "/run/admin.sock"},
	} {
		if got, err := parseAddress(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for address, says := range map[string]string{
		"":                     "the port is missing",
		"gpu":                  "the port is missing",
		"gpu:admin":            "it is not a URL",
		"gpu:0":                "the port must be a number from 1 to 65535",
		"gpu:70000":            "the port must be a number from 1 to 65535",
		"unix:":                "the path of the socket is missing",
		"ftp://gpu:9090":       "the scheme is ftp",
		"http://gpu:9090/api/": "it has more than a host and a port",
		"state/admin.sock":     "a socket's path needs unix: before it",
	} {
		_, err := New(address, "")
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "use host:port") {
			t.Errorf("%q: %v; want %s", address, err, says)
		}
	}
}
