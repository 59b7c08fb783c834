package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func parse(t *testing.T, proxy string) *url.URL {
	t.Helper()
	u, err := check(proxy, nil)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	output, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, out, "127.0.0.1:0", parse(t, "wss://proxy.example/stt?model=en")) }()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Fields(line)[1]
	through := strings.Replace(address, "http:", "ws:", 1) + "proxy"
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "<title>wsbouncer: microphone</title>") {
		t.Errorf("got %q, %v", body, err)
	}
	if proxy := response.Request.URL.Query().Get("proxy"); proxy != through {
		t.Errorf("the page is told that the proxy is at %q", proxy)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServeRefusesAddress(t *testing.T) {
	if err := serve(context.Background(), io.Discard, "127.0.0.1:-1", parse(t, "ws://127.0.0.1:8080/")); err == nil {
		t.Error("it listens on port -1")
	}
}

func TestHandler(t *testing.T) {
	h := handler(newPlug(parse(t, "ws://127.0.0.1:1/")))
	for _, test := range []struct {
		path, kind string
		status     int
	}{
		{"/", "text/html; charset=utf-8", http.StatusFound},
		{"/?proxy=ws://127.0.0.1:8080/", "text/html; charset=utf-8", http.StatusOK},
		{"/app.js", "text/javascript; charset=utf-8", http.StatusOK},
		{"/resuming-websocket.js", "text/javascript; charset=utf-8", http.StatusOK},
		{"/proxy", "", http.StatusBadGateway},
		{"/style.css", "text/css; charset=utf-8", http.StatusOK},
		{"/main.go", "text/plain; charset=utf-8", http.StatusNotFound},
	} {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, test.path, nil))
		if kind := recorder.Header().Get("Content-Type"); recorder.Code != test.status || kind != test.kind {
			t.Errorf("%s: got %d, %s", test.path, recorder.Code, kind)
		}
		if policy := recorder.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: the content security policy is %q", test.path, policy)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, good := range []string{"ws://127.0.0.1:8080/", "wss://proxy.example"} {
		if u, err := check(good, nil); err != nil || u.String() != good {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "http://127.0.0.1:8080/", "127.0.0.1:8080", "ws://", "ws://[::1"} {
		if _, err := check(bad, nil); err == nil || !strings.Contains(err.Error(), "use ws://host:port/path") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if _, err := check("ws://127.0.0.1:8080/", []string{"again"}); err == nil || !strings.Contains(err.Error(), `"again"`) {
		t.Errorf("got %v", err)
	}
}
