package admission_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// tlsRig is a rig whose clients speak TLS. Its server does not.
type tlsRig struct {
	*rig
	authority *securetest.Authority
	client    *tls.Config
}

// newTLSRig returns a rig; server may change the configuration of its listener.
func newTLSRig(t *testing.T, o setup, server func(*tls.Config)) *tlsRig {
	t.Helper()
	r := &tlsRig{rig: newRig(t, o)}
	r.authority = r.ServeTLS(server)
	r.client = r.TLS
	return r
}

// handshakes returns the counts of TLS handshakes as "result version".
func (r *tlsRig) handshakes() map[string]uint64 {
	counts := make(map[string]uint64)
	for _, h := range r.stats().TLS {
		counts[h.Result+" "+h.Version] += h.Count
	}
	return counts
}

// await waits for the log line about a TLS handshake that failed, and checks its result.
func (r *tlsRig) await(result, reason string) {
	r.T.Helper()
	for {
		line := wstest.Receive(r.T, r.Log.Lines, "a line about a TLS handshake")
		if line.Message != "TLS handshake failed" {
			continue
		}
		if line.Attrs["result"].String() != result || !strings.Contains(line.Attrs["reason"].String(), reason) {
			r.T.Errorf("logged %v; want %s, %q", line.Attrs, result, reason)
		}
		return
	}
}

// A client that speaks HTTP without TLS is told so, and so is one that sends an unexpected PROXY header. What speaks anything else is
// closed, logged and counted.
func TestNoTLSFromClient(t *testing.T) {
	r := newTLSRig(t, setup{}, nil)
	for _, request := range []string{wstest.UpgradeRequest("/v1/test"), "HEAD / HTTP/1.0\r\n\r\n", "POST /x HTTP/1.1\r\n\r\n"} {
		p := wstest.Dial(t, r.Address, request)
		response := p.Response()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusBadRequest || string(body) != "this port speaks TLS, and the client does not: use wss:// or https://\n" && request[0] != 'H' {
			t.Errorf("%.6q: %s %q", request, response.Status, body)
		}
	}
	p := wstest.Dial(t, r.Address, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"+wstest.UpgradeRequest("/v1/test"))
	if response := p.Response(); response.StatusCode != http.StatusBadRequest {
		t.Errorf("PROXY header: %s", response.Status)
	}
	p = wstest.Dial(t, r.Address, "SSH-2.0-OpenSSH_9.7\r\n")
	if rest, _ := io.ReadAll(p); len(rest) > 7 { // perhaps an alert
		t.Errorf("answered %q", rest)
	}
	r.await("not-tls", "does not look like a TLS handshake")
	if got := r.handshakes(); got["not-tls none"] != 5 || r.stats().Refused[400] != 4 {
		t.Errorf("counts: %v, %v", got, r.stats().Refused)
	}
}

// Handshakes that fail are counted and logged with the reason.
func TestTLSFailures(t *testing.T) {
	r := newTLSRig(t, setup{}, func(c *tls.Config) {
		c.MinVersion, c.ClientAuth, c.ClientCAs = tls.VersionTLS12, tls.RequireAndVerifyClientCert, x509.NewCertPool()
	})
	stranger := securetest.NewAuthority(t).Issue(nil, "x")
	with := func(change func(*tls.Config)) *tls.Config {
		c := r.client.Clone()
		change(c)
		return c
	}
	for _, c := range []struct {
		config          *tls.Config
		result, version string
		reason          string
	}{
		{with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }), "version", "none", "unsupported versions"},
		{with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), "parameters", "1.3", "unsupported application protocols"},
		{with(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }), "refused-by-client", "1.3", "bad certificate"},
		{with(func(c *tls.Config) { c.RootCAs, c.MaxVersion = x509.NewCertPool(), tls.VersionTLS12 }), "refused-by-client", "1.2", "bad certificate"},
		{r.client, "certificate", "1.3", "didn't provide a certificate"},
		{with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "certificate", "1.2", "didn't provide a certificate"},
		{with(func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }
		}), "certificate", "1.3", "failed to verify certificate"},
	} {
		before := r.handshakes()[c.result+" "+c.version]
		p, err := wstest.TryDialTLS(t, r.Address, c.config)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Write([]byte("GET")) // the client learns of some failures only when it reads
		_, _ = io.ReadAll(p)
		_ = p.Conn.Close()
		r.await(c.result, c.reason)
		if got := r.handshakes(); got[c.result+" "+c.version] != before+1 {
			t.Errorf("%s %s: %v", c.result, c.version, got)
		}
	}
	if n := r.stats().Refused; len(n) != 0 {
		t.Errorf("requests were refused that were never made: %v", n)
	}
}

// A handshake ends in time, at whatever point the client stops.
func TestTLSTimeout(t *testing.T) {
	r := newTLSRig(t, setup{Gate: func(o *admission.Options) { o.Limits.HandshakeTimeout = 50 * time.Millisecond }}, nil)
	wstest.Dial(t, r.Address, "\x16\x03\x01\x02\x00\x01") // the beginning of a client's hello
	r.await("timeout", "i/o timeout")
	r.TLS = nil // a client that is done with TLS, and says nothing more
	for range 20 {
		p, err := wstest.TryDialTLS(t, r.Address, r.client)
		if err != nil {
			t.Fatal(err)
		}
		defer p.TCP().Close()
		if p.Conn.(*tls.Conn).HandshakeContext(context.Background()) != nil {
			continue // on a busy machine the time may have passed before TLS was done, on one side or the other
		}
		response, err := p.TryResponse()
		if err != nil {
			continue
		}
		if body, err := io.ReadAll(response.Body); response.StatusCode != http.StatusRequestTimeout || err != nil {
			t.Errorf("answered %s %q, %v", response.Status, body, err)
		}
		p.ExpectEnd()
		return
	}
	t.Error("no client was done with TLS in time")
}

// A crowd of bad handshakes does not fill the log.
func TestTLSFailuresAreLoggedAtARate(t *testing.T) {
	r := newTLSRig(t, setup{}, nil)
	const atOnce, crowd = 20, 60
	for range crowd {
		p := wstest.Dial(t, r.Address, "SSH-2.0-OpenSSH\r\n")
		_, _ = io.ReadAll(p)
		_ = p.Close()
	}
	wstest.Eventually(t, "all are counted", func() bool { return r.handshakes()["not-tls none"] == crowd })
	r.Gate.StopAccepting()
	r.Stop() // which tells what was left out
	lines := 0
	for {
		line := wstest.Receive(t, r.Log.Lines, "the line about what was left out")
		if line.Message == "TLS handshake failed" {
			lines++
		}
		if line.Message == "failed TLS handshakes left out of the log" {
			break
		}
	}
	if lines < atOnce || lines >= crowd {
		t.Errorf("%d lines", lines)
	}
}

// A PROXY header comes before TLS, in one piece with the hello or not, and says where the client comes from.
func TestProxyHeaderBeforeTLS(t *testing.T) {
	policy, err := origin.NewPolicy([]string{"127.0.0.0/8"}, origin.NoHeader, origin.ProxyRequired)
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{true, false} {
		r := newTLSRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Gate: func(o *admission.Options) { o.Origin = policy }}, nil)
		r.Ready(1)
		nc, err := net.Dial("tcp", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(wstest.Deadline())
		first := &firstWrite{Conn: nc, header: "PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\n", whole: whole}
		conn := tls.Client(first, r.client)
		if _, err := io.WriteString(conn, wstest.UpgradeRequest("/v1/test")); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", response, err)
		}
		if all := r.sessions.List(); len(all) != 1 || all[0].Client.String() != "192.0.2.7:4711" {
			t.Errorf("the sessions are %+v", all)
		}
		if _, err := conn.Write(wstest.ClientFrame(true, frame.Text, []byte("hello"))); err != nil {
			t.Fatal(err)
		}
		echo := make([]byte, 7)
		if _, err := io.ReadFull(in, echo); err != nil || string(echo[2:]) != "hello" {
			t.Errorf("%q, %v", echo, err)
		}
	}
}

// firstWrite sends a header with the first bytes that are written, or before them.
type firstWrite struct {
	net.Conn
	header string
	whole  bool
}

func (f *firstWrite) Write(b []byte) (int, error) {
	if f.header == "" {
		return f.Conn.Write(b)
	}
	header := f.header
	f.header = ""
	if !f.whole {
		if _, err := io.WriteString(f.Conn, header); err != nil {
			return 0, err
		}
		return f.Conn.Write(b)
	}
	_, err := f.Conn.Write(append([]byte(header), b...))
	return len(b), err
}

// A client's certificate is known to its session, and to the log if its service does not authenticate clients.
func TestClientCertificate(t *testing.T) {
	clients := securetest.NewAuthority(t)
	r := newTLSRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}}, func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, clients.Pool()
	})
	p := r.Join()
	p.CloseNormally()
	line := r.Record()
	if _, found := line["auth"]; found {
		t.Errorf("a client without a certificate: %v", line)
	}
	r.TLS = r.client.Clone()
	r.TLS.Certificates = []tls.Certificate{clients.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "device-7" }, "device-7.example")}
	p = r.Join()
	p.CloseNormally()
	line = r.Record()
	if _, found := line["tenant"]; found || line["auth"].String() != "certificate" || line["subject"].String() != "CN=device-7" {
		t.Errorf("a client with a certificate: %v", line)
	}
}

// Health checks and refusals are answered over TLS, with an end in order.
func TestAnswersOverTLS(t *testing.T) {
	r := newTLSRig(t, setup{Gate: func(o *admission.Options) {
		o.Health = admission.Health{Path: "/up", Ready: func() error { return nil }}
	}}, nil)
	for request, want := range map[string]int{
		"GET /up HTTP/1.1\r\nHost: x\r\n\r\n": http.StatusOK, wstest.UpgradeRequest("/nowhere"): http.StatusNotFound, "GET /v1/test HTTP/1.1\r\nHost: x\r\n\r\n": http.StatusUpgradeRequired,
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
	} {
		p, response := r.Request(request)
		if response.StatusCode != want {
			t.Errorf("%.20q: %s; want %d", request, response.Status, want)
		}
		if _, err := io.ReadAll(response.Body); err != nil {
			t.Error(err)
		}
		p.ExpectEnd() // close_notify, not a cut
	}
}

// A client that waits in the queue over TLS gets its connection, what it has sent meanwhile is not lost, and one that leaves is noticed.
func TestQueueOverTLS(t *testing.T) {
	r := newTLSRig(t, setup{Profile: "echo", Queue: 2, Script: &wstest.Server{Serve: wstest.Echo}}, nil)
	first := r.Join()
	leaves := r.Connect(wstest.UpgradeRequest("/v1/test"))
	wstest.Eventually(t, "it waits", func() bool { return r.Group.Queue().Waiting == 1 })
	_ = leaves.Close()
	wstest.Eventually(t, "it has left", func() bool { return r.Group.Queue().Waiting == 0 })
	second := r.Connect(wstest.UpgradeRequest("/v1/test"))
	wstest.Eventually(t, "it waits", func() bool { return r.Group.Queue().Waiting == 1 })
	second.Send(frame.Text, "early")
	first.CloseNormally()
	second.ExpectUpgrade()
	second.Expect(frame.Text, "early")
	second.CloseNormally()
}

// Other people's TLS understands ours, with each version and cipher suite that is on by default.
func TestOpenSSL(t *testing.T) {
	path, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("needs openssl")
	}
	r := newTLSRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}}, nil)
	ca := r.authority.File()
	for _, c := range []struct {
		arguments []string
		want      string // in what openssl says, or in the answer
	}{
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"}, "101 Switching Protocols"},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"}, "101 Switching Protocols"},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"}, "101 Switching Protocols"},
		{[]string{"-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"}, "101 Switching Protocols"},
		{[]string{"-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "-alpn", "http/1.1"}, "101 Switching Protocols"},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"}, "101 Switching Protocols"}, // the last choice
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"}, "handshake failure"},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-CCM8"}, "handshake failure"},
		{[]string{"-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"}, "protocol version"},
		{[]string{"-tls1_3", "-alpn", "h2"}, "no application protocol"},
	} {
		r.Ready(1)
		arguments := append([]string{"s_client", "-connect", r.Address, "-CAfile", ca, "-verify_return_error", "-quiet", "-ign_eof"}, c.arguments...)
		ctx, cancel := context.WithTimeout(t.Context(), wstest.Timeout)
		command := exec.CommandContext(ctx, path, arguments...)
		closing := wstest.ClientFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
		command.Stdin = strings.NewReader(wstest.UpgradeRequest("/v1/test") + string(closing))
		output, _ := command.CombinedOutput()
		cancel()
		if !strings.Contains(string(output), c.want) {
			t.Errorf("%q: %s; want %q", c.arguments, output, c.want)
		}
	}
}

// A session over TLS keeps what its client sent together with its request.
func TestEarlyFramesOverTLS(t *testing.T) {
	r := newTLSRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}}, nil)
	r.Ready(1)
	p := r.Connect(wstest.UpgradeRequest("/v1/test") + string(wstest.ClientFrame(true, frame.Text, []byte("one"))) + string(wstest.ClientFrame(true, frame.Text, []byte("two"))))
	p.ExpectUpgrade()
	p.Expect(frame.Text, "one")
	p.Expect(frame.Text, "two")
	p.CloseNormally()
}
