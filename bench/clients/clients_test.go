package clients

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
)

// TestMain silences toxics, some of which log to standard error.
func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	os.Exit(m.Run())
}

const (
	// messages are what each client sends and gets back: 1.5 MB in each direction.
	messages = 1000
	// cuts are how often its connections are cut. Each comes within 20 KB.
	cuts = 20
	// testTimeout ends a test that hangs. A test that passes never waits for it.
	testTimeout = 3 * time.Minute
)

// network is Toxiproxy in front of a proxy, with an echo server behind that.
type network struct {
	t     *testing.T
	ctx   context.Context
	proxy *app.Proxy
	way   *toxiproxy.Proxy
	log   *logtest.Capture
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	n := &network{t: t, ctx: ctx, log: &logtest.Capture{Lines: make(chan logtest.Line, 1000)}}
	server, err := sim.Start(sim.Options{Protocol: sim.Echo})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	settings := app.DefaultSettings()
	settings.Listen, settings.Backends, settings.Profile = []string{"127.0.0.1:0"}, []string{server.URL()}, "echo"
	settings.Connections, settings.Warm, settings.DrainTimeout = 2, 1, 0
	settings.Service.Reconnect = time.Minute
	if n.proxy, err = app.Start(ctx, settings, "test", slog.New(n.log)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.proxy.Shutdown() })
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n.way = toxiproxy.NewProxy(api, "way", "127.0.0.1:0", n.proxy.Addresses()[0].String())
	if err := n.way.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.way.Stop)
	return n
}

// poison does something to some of the connections, those that there are and those that come.
func (n *network) poison(kind, direction, attributes string, toxicity float64) {
	if _, err := n.way.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name": %q, "type": %q, "stream": %q, "toxicity": %g, "attributes": {%s}}`, kind+direction, kind, direction, toxicity, attributes))); err != nil {
		n.t.Errorf("adding the toxic %s: %v", kind, err)
	}
}

// await waits for one of these lines of the proxy's log, and reports whether it came before the end.
func (n *network) await(end <-chan struct{}, messages ...string) bool {
	for {
		select {
		case line := <-n.log.Lines:
			if slices.Contains(messages, line.Message) {
				return true
			}
		case <-end:
			return false
		}
	}
}

// trouble cuts connections, one after the other, and reports whether it did so before the end: behind some bytes of either direction, which may be in the middle of
// the answer to a client that returns, and which the next connections do not get beyond either; with a reset; by silence.
func (n *network) trouble(end <-chan struct{}) bool {
	if !n.await(end, "session started") {
		return false
	}
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range cuts {
		direction := [...]string{"upstream", "downstream"}[chance.IntN(2)]
		then := []string{"client is lost, its session waits for it", "client left before its session began"}
		switch {
		case i%10 == 9:
			n.poison("timeout", direction, `"timeout": 0`, 0.7)
			then = []string{"client is back"} // over one of the connections that are left alone, while the other is open
		case i%5 == 4:
			n.poison("reset_peer", direction, fmt.Sprintf(`"timeout": %d`, chance.IntN(100)), 1)
		default:
			n.poison("limit_data", direction, fmt.Sprintf(`"bytes": %d`, chance.IntN([...]int{400, 1000, 20000}[chance.IntN(3)])), 1)
		}
		again := n.await(end, then...)
		n.way.Toxics.ResetToxics(n.ctx)
		if !again {
			return false
		}
	}
	return true
}

// check has a client converse while its connections are cut.
func check(t *testing.T, converse func(ctx context.Context, url string) error) {
	t.Helper()
	t.Parallel()
	n := newNetwork(t)
	end, done := make(chan struct{}), make(chan bool)
	go func() { done <- n.trouble(end) }()
	err := converse(n.ctx, "ws://"+n.way.Listen+"/")
	close(end)
	if all := <-done; err != nil {
		t.Error(err)
	} else if !all {
		t.Errorf("all messages have come before there were %d cuts", cuts)
	}
	if s := n.proxy.Stats().Sessions; s.Total != 1 {
		t.Errorf("there were %d sessions; want 1", s.Total)
	}
}

// command runs a program with the URL and the number of messages as its last arguments.
func command(name string, args ...string) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		out, err := exec.CommandContext(ctx, name, append(args, url, fmt.Sprint(messages))...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// from returns a file or folder, by its path from the root of the repository.
func from(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// given returns what an environment variable has, or skips the test.
func given(t *testing.T, variable string) []string {
	t.Helper()
	words := strings.Fields(os.Getenv(variable))
	if len(words) == 0 {
		t.Skip("`make test-clients` runs this: it takes " + variable)
	}
	return words
}

func TestPython(t *testing.T) {
	python := given(t, "PYTHON")
	check(t, command(python[0], "testdata/echo.py", from(t, "clients", "python")))
}

func TestNode(t *testing.T) {
	node := given(t, "NODE")
	args := append(node[1:], "testdata/echo.mjs", from(t, "clients", "javascript", "resuming-websocket.js"))
	check(t, command(node[0], args...))
}

// TestBrowser runs the client for JavaScript in Chromium.
func TestBrowser(t *testing.T) {
	chromium := given(t, "CHROMIUM")
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir("testdata")))
	files.Handle("/client/", http.StripPrefix("/client", http.FileServer(http.Dir(from(t, "clients", "javascript")))))
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	check(t, func(ctx context.Context, url string) error {
		page := devtools.Start(t, ctx, chromium[0]).Open(server.URL + "/")
		var returns int
		page.Evaluate(fmt.Sprintf(`Promise.all([import("/client/resuming-websocket.js"), import("/echo.mjs")]).then(([client, echo]) =>
			echo.converse(client.ResumingWebSocket, %q, %d))`, url, messages), &returns)
		t.Logf("%d returns", returns)
		return nil
	})
}
