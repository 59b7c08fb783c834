package handshake

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAcceptKey(t *testing.T) {
	if got := acceptKey(sampleKey); got != sampleAccept {
		t.Errorf("%q, the RFC has %q", got, sampleAccept)
	}
}

func TestRequestsThatAreAccepted(t *testing.T) {
	tests := []struct {
		name    string
		request string
	}{
		{"the least", plainRequest},
		{"Firefox", with("User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Accept: */*",
			"Accept-Language: ja,en-US;q=0.7,en;q=0.3", "Accept-Encoding: gzip, deflate, br", "Origin: https://app.example",
			"Sec-WebSocket-Extensions: permessage-deflate", "Sec-Fetch-Mode: websocket", "Cookie: a=b")},
		{"several Connection tokens", edit(t, "Connection: Upgrade", "Connection: keep-alive, Upgrade")},
		{"two Connection headers", edit(t, "Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade")},
		{"several Upgrade tokens", edit(t, "Upgrade: websocket", "Upgrade: h2c, WebSocket")},
		{"Chrome's extensions", with("Origin: null", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")},
		{
			"lower-case names", "GET / HTTP/1.1\r\nhost: x\r\nupgrade: WEBSOCKET\r\nconnection: UPGRADE\r\nsec-websocket-key: " +
				sampleKey + "\r\nsec-websocket-version: 13\r\n\r\n",
		},
		{"spaces around values", edit(t, sampleKey, "  "+sampleKey+" \t")},
		{"an empty body announced", with("Content-Length: 0")},
		{"absolute address", edit(t, "GET /v1/stt", "GET ws://proxy.example/v1/stt")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, err := ReadRequest(arrive(test.request+"\x81\x80early"), DefaultMaxHead)
			if err != nil {
				t.Fatal(err)
			}
			if refusal := req.Check(); refusal != nil {
				t.Fatal(refusal)
			}
			if string(req.Early) != "\x81\x80early" {
				t.Errorf("early bytes %q", req.Early)
			}
			response, _ := answer(t, req.AppendAccept(nil, ""))
			want := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Accept": {sampleAccept}}
			if response.StatusCode != 101 || !maps.EqualFunc(response.Header, want, slices.Equal) {
				t.Errorf("answer %d, %v", response.StatusCode, response.Header)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	tests := []struct {
		name    string
		request string
		status  int
		reason  string // a part of it
	}{
		{"plain HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 426, "must ask for an upgrade"},
		{"no Upgrade", edit(t, "Upgrade: websocket\r\n", ""), 426, "must ask for an upgrade"},
		{"another Upgrade", edit(t, "Upgrade: websocket", "Upgrade: h2c"), 426, "must ask for an upgrade"},
		{"a longer word", edit(t, "Upgrade: websocket", "Upgrade: websocket2"), 426, "must ask for an upgrade"},
		{"no Connection", edit(t, "Connection: Upgrade\r\n", ""), 426, "must ask for an upgrade"},
		{"Connection without upgrade", edit(t, "Connection: Upgrade", "Connection: keep-alive"), 426, "must ask for an upgrade"},
		{"POST", edit(t, "GET", "POST"), 400, `not "POST"`},
		{"long method", edit(t, "GET", strings.Repeat("GET", 20)), 400, `not "` + strings.Repeat("GET", 20)[:20] + `"`},
		{"HTTP/1.0", edit(t, "HTTP/1.1", "HTTP/1.0"), 400, "HTTP/1.1"},
		{"no Host", edit(t, "Host: proxy.example\r\n", ""), 400, "Host header is missing"},
		{"two Hosts", edit(t, "Host: proxy.example\r\n", "Host: proxy.example\r\nhost: other.example\r\n"), 400, "too many Host headers"},
		{"a body", with("Content-Length: 3") + "abc", 400, "must not have a body"},
		{"a chunked body", with("Transfer-Encoding: chunked") + "0\r\n\r\n", 400, "must not have a body"},
		{"no version", edit(t, "Sec-WebSocket-Version: 13\r\n", ""), 426, "must be 13"},
		{"version 8", edit(t, "Version: 13", "Version: 8"), 426, "must be 13"},
		{"versions 13 and 8", with("Sec-WebSocket-Version: 8"), 426, "must be 13"},
		{"no key", edit(t, "Sec-WebSocket-Key: "+sampleKey+"\r\n", ""), 400, "not 0"},
		{"two keys", with("Sec-WebSocket-Key: " + sampleKey), 400, "not 2"},
		{"empty key", edit(t, sampleKey, ""), 400, "16 bytes"},
		{"short key", edit(t, sampleKey, "c2hvcnQ="), 400, `not "c2hvcnQ="`},
		{"long key", edit(t, sampleKey, strings.Repeat("QUFB", 40)), 400, "16 bytes"},
		{"key not in base64", edit(t, sampleKey, "!!!!!!!!!!!!!!!!!!!!!!=="), 400, "16 bytes"},
		{"no HTTP", "\x80\x2e\x01\x00\x02 something else\r\n\r\n", 400, "malformed"},
		{"TLS, and a client that waits for an answer", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "the client speaks TLS, and this port does not"},
		{"no version of HTTP", "GET /\r\n\r\n", 400, "malformed"},
		{"bad header", with("no colon here"), 400, "malformed"},
		{"space before a colon", edit(t, "Upgrade: websocket", "Upgrade : websocket"), 400, "a line of the header is no field"},
		{"control character in a value", with("X: a\x01b"), 400, "malformed"},
		{"bad Content-Length", with("Content-Length: x"), 400, "malformed"},
		{"empty line first", "\r\n\r\n" + plainRequest, 400, "malformed"},
		{"only ended by a bare line feed", edit(t, "Sec-WebSocket-Version: 13\r\n", "Sec-WebSocket-Version: 13\n\nframes\r\n"), 400, "malformed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var refusal *Refusal
			req, err := ReadRequest(arrive(test.request), DefaultMaxHead)
			if err == nil {
				refusal = req.Check()
			} else if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			if refusal == nil {
				t.Fatal("accepted")
			}
			if refusal.Status != test.status || !strings.Contains(refusal.Reason, test.reason) {
				t.Errorf("%v; want %d and %q", refusal, test.status, test.reason)
			}
			if text := refusal.Error(); !strings.Contains(text, http.StatusText(test.status)) || !strings.Contains(text, test.reason) {
				t.Errorf("as an error: %q", text)
			}
			response, body := answer(t, refusal.Append(nil))
			if response.StatusCode != test.status || body != refusal.Reason+"\n" || !response.Close {
				t.Errorf("answer %d, close %v, %q", response.StatusCode, response.Close, body)
			}
			if test.status == 426 {
				// RFC 9110, section 7.8: the sender of Upgrade must name it in Connection.
				wire := string(refusal.Append(nil)) // net/http removes what it has acted on
				if !strings.Contains(wire, "\r\nUpgrade: websocket\r\n") || !strings.Contains(wire, "\r\nConnection: close, Upgrade\r\n") {
					t.Errorf("answer %q", wire)
				}
			}
			if version := response.Header.Get("Sec-WebSocket-Version"); (version == "13") != (test.reason == "must be 13") {
				t.Errorf("Sec-WebSocket-Version is %q", version)
			}
		})
	}
}

func TestRequestSplitAnywhere(t *testing.T) {
	const early = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"
	request := with("Cookie: "+strings.Repeat("x", 2500)) + early // more than the first buffer
	everySplit(request, func(pieces []string) {
		nc := arrive(pieces...)
		req, err := ReadRequest(nc, DefaultMaxHead)
		if err != nil {
			t.Fatalf("first piece of %d bytes: %v", len(pieces[0]), err)
		}
		if refusal := req.Check(); refusal != nil {
			t.Fatalf("first piece of %d bytes: %v", len(pieces[0]), refusal)
		}
		// What was not read is still in the socket: nothing is lost.
		rest, _ := io.ReadAll(nc)
		if got := string(req.Early) + string(rest); got != early {
			t.Fatalf("first piece of %d bytes: early bytes %q and %q", len(pieces[0]), req.Early, rest)
		}
		if req.URL.Path != "/v1/stt" || req.URL.Query().Get("lang") != "ja" || req.Host != "proxy.example" {
			t.Fatalf("%v, %q", req.URL, req.Host)
		}
	})
}

// What is returned must not change when the pooled buffer is used for the next request.
func TestRequestOutlivesTheBuffer(t *testing.T) {
	req, err := ReadRequest(arrive(with("X-One: first")+"early one"), DefaultMaxHead)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := ReadRequest(arrive(strings.ReplaceAll(with("X-One: XXXXX"), "proxy", "XXXXX")+"EARLY TWO"), DefaultMaxHead); err != nil {
			t.Fatal(err)
		}
	}
	if req.Header.Get("X-One") != "first" || string(req.Early) != "early one" || req.Host != "proxy.example" {
		t.Errorf("%v, %q, %q", req.Header, req.Early, req.Host)
	}
}

func TestLongHeads(t *testing.T) {
	const limit = 4000
	padded := func(n int) string { // a request whose head has n bytes
		return with("X: " + strings.Repeat("x", n-len(with("X: "))))
	}
	tests := []struct {
		name    string
		request string
		ok      bool
	}{
		{"just the limit", padded(limit), true},
		{"just the limit, early bytes behind it", padded(limit) + strings.Repeat("early", 2000), true},
		{"one over the limit", padded(limit + 1), false},
		{"far over the limit", padded(20 * limit), false},
		{"long request line", edit(t, "GET /", "GET /"+strings.Repeat("x", 2*limit)), false},
		{"never ends", strings.Repeat("x", 10*limit), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 100, 1 << 20} {
				var pieces []string
				for piece := range slices.Chunk([]byte(test.request), size) {
					pieces = append(pieces, string(piece))
				}
				_, err := ReadRequest(arrive(pieces...), limit)
				var refusal *Refusal
				if test.ok && err != nil || !test.ok && (!errors.As(err, &refusal) || refusal.Status != 431) {
					t.Errorf("in pieces of %d bytes: %v", size, err)
				}
			}
		})
	}
}

func TestRequestThatStopsShort(t *testing.T) {
	if _, err := ReadRequest(arrive(), DefaultMaxHead); err != io.EOF {
		t.Errorf("nothing: %v, want EOF", err)
	}
	if _, err := ReadRequest(arrive(plainRequest[:50]), DefaultMaxHead); err != io.ErrUnexpectedEOF {
		t.Errorf("a part: %v, want an unexpected EOF", err)
	}
}

func TestStalledRequest(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() {
		_, _ = far.Write([]byte(plainRequest[:50]))
		_ = near.SetReadDeadline(time.Now()) // all that was sent has been read
	}()
	_, err := ReadRequest(near, DefaultMaxHead)
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusRequestTimeout {
		t.Errorf("%v, want a refusal with 408", err)
	}
}

func TestOffers(t *testing.T) {
	request := with("Sec-WebSocket-Protocol: stt.v1, stt.v2", "Sec-WebSocket-Protocol:  graphql-ws,,")
	req, err := ReadRequest(arrive(request), DefaultMaxHead)
	if err != nil {
		t.Fatal(err)
	}
	for _, offered := range []string{"stt.v1", "stt.v2", "graphql-ws"} {
		if !req.Offers(offered) {
			t.Errorf("%q was offered", offered)
		}
	}
	for _, other := range []string{"", "stt", "STT.v1", "stt.v1, stt.v2"} { // names of subprotocols are case-sensitive
		if req.Offers(other) {
			t.Errorf("%q was not offered", other)
		}
	}
	response, _ := answer(t, req.AppendAccept([]byte{}, "stt.v2"))
	if got := response.Header["Sec-Websocket-Protocol"]; !slices.Equal(got, []string{"stt.v2"}) {
		t.Errorf("answered with %q", got)
	}
}

// Whatever part of a request the answer quotes, it stays one answer with only the intended header.
func TestAnswersCannotBeSplit(t *testing.T) {
	const evil = "x\r\nSet-Cookie: a=b\r\n\r\n<script>"
	soft := strings.NewReplacer("\r\n", "\r", "\u00e9", "\xff").Replace(evil) // survives as part of a line
	requests := []string{
		edit(t, "GET", soft), edit(t, "/v1/stt", "/"+soft), edit(t, "HTTP/1.1", soft), edit(t, "HTTP/1.1", "HTTP/1.1\u2028Set-Cookie: a=b"),
		edit(t, sampleKey, soft), edit(t, sampleKey, evil), edit(t, "Version: 13", "Version: "+evil), edit(t, "Host: proxy.example", "Host: "+soft),
		with("Content-Length: " + soft), with("Transfer-Encoding: " + soft), with(soft), with("Sec-WebSocket-Key: " + soft),
		with("no colon \r\x00\xff\u2028\x7f here"), evil + plainRequest, edit(t, "GET", "G\x00T"), edit(t, sampleKey, "\u0085\u2028\u2029"), edit(t, "GET /v1", "GET /%0d%0aSet-Cookie:x"),
	}
	for _, request := range requests {
		req, err := ReadRequest(arrive(request), DefaultMaxHead)
		var refusal *Refusal
		if err == nil {
			if refusal = req.Check(); refusal == nil {
				_, _ = answer(t, req.AppendAccept(nil, ""))
				continue
			}
		} else if !errors.As(err, &refusal) {
			t.Errorf("%q: %v", request, err)
			continue
		}
		checkRefusal(t, refusal)
	}
}

// At present, net/http's errors quote parts of the request; the answer must not depend on that.
func TestPrintable(t *testing.T) {
	if got := printable("a\r\nb\x00\xff\x7f\u2028c"); got != "a??b????c" {
		t.Errorf("%q", got)
	}
}

// checkRefusal checks that the answer has only what the refusal contains.
func checkRefusal(t testing.TB, refusal *Refusal) {
	t.Helper()
	response, body := answer(t, refusal.Append(nil))
	for name := range response.Header {
		switch name {
		case "Connection", "Content-Type", "Content-Length", "X-Content-Type-Options", "Upgrade", "Sec-Websocket-Version":
		default:
			t.Errorf("header %q in the answer to %v", name, refusal)
		}
	}
	if body != refusal.Reason+"\n" || strings.ContainsAny(refusal.Reason, "\r\n\x00\x7f") {
		t.Errorf("body %q for the reason %q", body, refusal.Reason)
	}
}

func TestRefusalWithHeader(t *testing.T) {
	refusal := &Refusal{Status: 503, Reason: "no capacity", Header: RetryAfter(7)}
	response, body := answer(t, refusal.Append([]byte{}))
	if response.StatusCode != 503 || response.Header.Get("Retry-After") != "7" || body != "no capacity\n" {
		t.Errorf("%d, %v, %q", response.StatusCode, response.Header, body)
	}
	if response.Header.Get("Connection") != "close" && !response.Close {
		t.Error("the answer does not say that the connection is closed")
	}
}

// tcpPair returns the two ends of a TCP connection.
func tcpPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(); _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(testTimeout))
	return server, client
}

// A client that is still sending must get the answer, not a reset that overtakes it.
func TestRefuseLetsTheClientFinish(t *testing.T) {
	server, client := tcpPair(t)
	refusal := &Refusal{Status: 503, Reason: "come back later"}
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		Refuse(server, refusal)
	}()
	head := make([]byte, 12)
	if _, err := io.ReadFull(client, head); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(client)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	_ = client.Close()
	<-refused
	if response, body := answer(t, append(head, rest...)); response.StatusCode != 503 || body != "come back later\n" {
		t.Errorf("%d, %q", response.StatusCode, body)
	}
}

// halfClosing is a pipe that says that it can close one direction.
type halfClosing struct{ net.Conn }

func (halfClosing) CloseWrite() error { return nil }

// A client that never stops sending, however fast, does not keep Refuse from returning.
func TestRefuseDoesNotReadForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		sent := make(chan int, 1)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() {
			total := 0
			for {
				n, err := far.Write(make([]byte, 4<<10))
				if total += n; err != nil {
					sent <- total
					return
				}
			}
		}()
		start := time.Now()
		Refuse(halfClosing{near}, &Refusal{Status: 400, Reason: "no"})
		if took := time.Since(start); took != 0 {
			t.Errorf("read for %v", took)
		}
		if n := <-sent; n < lingerBytes || n > lingerBytes+(4<<10) {
			t.Errorf("cut off after %d bytes, want %d", n, lingerBytes)
		}
		_ = far.Close()
	})
}

// Neither does a client that does nothing, whether it reads the answer or not.
func TestRefuseDoesNotWaitForEver(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			if reads {
				go func() { _, _ = io.Copy(io.Discard, far) }()
			}
			start := time.Now()
			Refuse(halfClosing{near}, &Refusal{Status: 400, Reason: "no"})
			if took := time.Since(start); took != lingerTime {
				t.Errorf("client reads: %v; waited %v, want %v", reads, took, lingerTime)
			}
			_ = far.Close()
		})
	}
}

// A refusal's reason, which is logged, does not quote the request: it may contain a secret.
func TestMalformedTellsNoSecret(t *testing.T) {
	for _, c := range []struct{ request, want string }{
		{edit(t, "GET /v1/stt?lang=ja", "GET /v1/%zz?key=S3CRET"), "malformed HTTP request: invalid URL escape"},
		{edit(t, "GET /v1/stt?lang=ja", "GET /v1?key=S3CRET more"), "malformed HTTP request: the first line is not a method, a target and a version"},
		{edit(t, "GET /v1/stt?lang=ja HTTP/1.1", "S3CRET"), "malformed HTTP request: the first line is not a method, a target and a version"},
		{with("Authorization S3CRET"), "malformed HTTP request: a line of the header is no field"},
		{with("Authorization: a\x00S3CRET"), "malformed HTTP request: a control character"},
	} {
		_, err := ReadRequest(arrive(c.request), DefaultMaxHead)
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || strings.Contains(refusal.Reason, "S3CRET") || refusal.Reason != c.want {
			t.Errorf("%q: %v; want %s", c.request, err, c.want)
		}
	}
}

// Fields that a client names in Connection are only for the proxy.
func TestForwarded(t *testing.T) {
	req, err := ReadRequest(arrive(edit(t, "Connection: Upgrade", "Connection: Upgrade, x-hop\r\nX-Hop: 1\r\nX-End: 2\r\nX-End: 3")), DefaultMaxHead)
	if err != nil {
		t.Fatal(err)
	}
	if hop, end := req.Forwarded("X-Hop"), req.Forwarded("X-End"); hop != nil || !slices.Equal(end, []string{"2", "3"}) {
		t.Errorf("%q, %q", hop, end)
	}
}
