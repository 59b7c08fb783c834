package verify

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The page of a report names neither end of a connection, whichever error or message did.
func TestPageHidesAddresses(t *testing.T) {
	target, err := handshake.ParseTarget("ws://gpu-1:2700/a")
	if err != nil {
		t.Fatal(err)
	}
	server, own := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 2700}, &net.TCPAddr{IP: net.ParseIP("fd00::7"), Port: 51234}
	failed := &net.OpError{Op: "read", Net: "tcp", Source: own, Addr: server, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	r := &Report{Profile: "gpu-1"}
	r.addresses.dialed(target, nil, failed)
	r.addresses.dialed(target, nil, errors.New("other"))
	r.addresses.dialed(target, nil, &net.DNSError{Err: "no such host", Name: "gpu-2", Server: "10.0.0.9:53"})
	why := failed.Error() + `; {"host": "10.0.0.5", "id": "10.0.0.51"}; connecting to gpu-1:2700, gpu-1 and gpu-11; lookup gpu-2 on 10.0.0.9:53`
	r.Claims = []Claim{{Name: "session", Verdict: Fails, Why: why, Evidence: []string{why}}}
	want := `read tcp (address)->(address): read: connection reset by peer; {"host": "(address)", "id": "10.0.0.51"}; connecting to (address), (address) and gpu-11; ` +
		`lookup (address) on (address)`
	if page := r.Page("v1", ""); strings.Count(page, want) != 2 || !strings.Contains(page, "# gpu-1 on a real server") {
		t.Errorf("%s\nwant %s", page, want)
	}
}

// What a server repeats of the client's key is not shown, in verdicts and as evidence.
func TestReportHidesSecrets(t *testing.T) {
	upgrader := websocket.Upgrader{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		key := r.Header.Get("Authorization")
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type": "error", "filler": "`+strings.Repeat("x", 140)+`", "message": "`+key+`"}`))
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4001, key), time.Now().Add(time.Second))
		_, _, _ = c.ReadMessage()
	}))
	defer server.Close()
	for _, name := range []string{sim.RealtimeSTT, sim.Vosk} { // which takes the message for a failure, and which takes it for a result
		r, err := try(t, name, sim.Options{Protocol: name}, func(o *Options) {
			target, parseErr := handshake.ParseTarget("ws" + strings.TrimPrefix(server.URL, "http"))
			if parseErr != nil {
				t.Fatal(parseErr)
			}
			target.Resolve = func() (http.Header, error) { return http.Header{"Authorization": {"Bearer s3cret-and-long"}}, nil }
			o.Target, o.Wait = target, time.Second
		})
		text := fmt.Sprintf("%v %+v", err, r.Claims)
		if err == nil || strings.Contains(text, "s3c") || !strings.Contains(text, "xxx") || !strings.Contains(text, "(hidden)") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
