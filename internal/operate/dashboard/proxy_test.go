package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
)

// rig is a real proxy with one service on two simulated servers, and clients that talk all the time.
type rig struct {
	t       *testing.T
	ctx     context.Context
	clients string // the address for clients
	admin   string // the address of the admin API
	wait    sync.WaitGroup
	ended   chan websocket.CloseError // of clients
}

func startRig(t *testing.T, ctx context.Context) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &rig{t: t, ctx: ctx, ended: make(chan websocket.CloseError, 100)}
	directory, err := os.MkdirTemp("", "dashboard") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	settings := app.DefaultSettings()
	settings.Listen, settings.Admin, settings.AdminSocket = []string{"127.0.0.1:0"}, "127.0.0.1:0", "off"
	settings.StateDirectory, settings.Database = directory, filepath.Join(directory, "proxy.db")
	settings.DrainTimeout = 0
	settings.AdminToken, settings.Tokens.Token = "env:TOKEN", operatorToken
	proxy, err := app.Start(t.Context(), settings, "v0.0.1-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		r.wait.Wait()
		proxy.Shutdown()
		http.DefaultClient.CloseIdleConnections()
		_ = os.RemoveAll(directory)
	})
	r.clients, r.admin = "ws://"+proxy.Addresses()[0].String()+"/echo", "http://"+proxy.AdminAddress().String()
	mutations := []map[string]any{{"verb": "add", "kind": "service", "name": "echo", "values": map[string]any{"path": "/echo", "profile": "echo", "queue-timeout": "60s"}}}
	for i := range 2 {
		server, err := sim.Start(sim.Options{Protocol: sim.Echo})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		mutations = append(mutations, map[string]any{"verb": "add", "kind": "backend", "name": fmt.Sprintf("gpu-%d", i+1), "values": map[string]any{"service": "echo", "url": server.URL(), "connections": 8, "warm": 2}})
	}
	body, err := json.Marshal(map[string]any{"who": "test", "mutations": mutations})
	if err != nil {
		t.Fatal(err)
	}
	answer := r.ask(http.MethodPost, api.ConfigPath+"/changes", bytes.NewReader(body))
	var said bytes.Buffer
	_, _ = said.ReadFrom(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", answer.Status, said.String())
	}
	for stats := proxy.Stats(); len(stats.Backends) < 2 || stats.Backends[0].Idle < 2 || stats.Backends[1].Idle < 2; stats = proxy.Stats() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the backends have no connections")
		}
	}
	return r
}

// client starts a client, which sends a message every 20 ms and reads the echoes until its session ends.
func (r *rig) client() {
	r.wait.Go(func() {
		conn, _, err := websocket.Dial(r.ctx, r.clients, nil)
		if err != nil {
			if r.ctx.Err() == nil {
				r.t.Error(err)
			}
			return
		}
		defer conn.CloseNow()
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		r.wait.Go(func() {
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for conn.Write(ctx, websocket.MessageText, []byte("hello")) == nil {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
			}
		})
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				closed := websocket.CloseError{Code: websocket.CloseStatus(err)}
				if text := err.Error(); strings.Contains(text, "maintenance") {
					closed.Reason = "maintenance"
				}
				r.ended <- closed
				return
			}
		}
	})
}

// operatorToken is the token of the proxy's operators: without one, the admin API is read-only over TCP.
const operatorToken = "s3cret"

// ask sends the admin API a request of an operator.
func (r *rig) ask(method, path string, body io.Reader) *http.Response {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.ctx, method, r.admin+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+operatorToken)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *rig) stats() (s api.Stats) {
	r.t.Helper()
	answer := r.ask(http.MethodGet, api.StatsPath, http.NoBody)
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// do opens the menu of a row, chooses an entry, and confirms it.
func do(page devtools.Tab, name, entry string) {
	page.Helper()
	page.Evaluate(fmt.Sprintf(`document.querySelector("tr[data-name='%s'] summary").click()`, name), nil)
	page.Await(fmt.Sprintf(`[...document.querySelectorAll("details[open] button")].some((b) => b.textContent === %q)`, entry))
	page.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("details[open] button")].find((b) => b.textContent === %q).click()`, entry), nil)
	confirmed(page)
}

// confirmed confirms an action, and waits until the proxy has carried it out.
func confirmed(page devtools.Tab) {
	page.Helper()
	page.Await(`document.querySelector("dialog[open]")`)
	page.Evaluate(`{
		const form = document.querySelector("dialog form");
		form.elements.who.value = "carol";
		form.elements.why.value = "maintenance";
		if (form.elements.choice) form.elements.choice.value = "";
		form.querySelector("button[type=submit]").click();
	}`, nil)
	page.Await(`!document.querySelector("dialog") || !document.querySelector("dialog [role=alert]").hidden`)
	var refused string
	page.Evaluate(`document.querySelector("dialog [role=alert]")?.textContent ?? ""`, &refused)
	if refused != "" {
		page.Fatalf("the proxy refused: %s", refused)
	}
}

// TestOnProxy uses the dashboard of a real proxy under load: its numbers are those of the API, and each action works.
func TestOnProxy(t *testing.T) {
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		t.Skip("`make test-browser` runs this: it takes Chromium")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	r := startRig(t, ctx)
	for range 6 {
		r.client()
	}
	browser := devtools.Start(t, ctx, chromium)
	page := browser.Open(r.admin + "/")
	page.Await(`document.querySelector("#token-dialog[open]")`)
	page.Evaluate(fmt.Sprintf(`{
		const form = document.querySelector("#token-dialog form");
		form.elements.token.value = %q;
		form.requestSubmit();
	}`, operatorToken), nil)
	page.Await(`document.querySelectorAll("#session-rows tr").length === 6 && document.querySelector("#process").textContent.includes("6 sessions")`)
	login := browser.Logs() // that the first request was refused

	// The numbers. Nothing but counters changes while these sessions last.
	page.Await(`[...document.querySelectorAll("#session-rows td[data-label='Frames/s']")].every((cell) => Number(cell.textContent) > 10)`)
	shown := func(b api.Backend) string {
		return page.Text(fmt.Sprintf("tr[data-name='%s'] .connections .sub", b.Name)) + ", " + page.Text(fmt.Sprintf("tr[data-name='%s'] td[data-label='Leased / cap']", b.Name))
	}
	for equal := false; !equal; { // idle connections may come and go, and the page shows them some time later
		equal = true
		for _, b := range r.stats().Backends {
			var parts []string
			for _, part := range []struct {
				n    int
				name string
			}{{b.Leased, "leased"}, {b.Resetting, "resetting"}, {b.Idle, "idle"}, {b.Dialing, "dialing"}, {b.Retiring, "retiring"}} {
				if part.n > 0 {
					parts = append(parts, fmt.Sprintf("%d %s", part.n, part.name))
				}
			}
			if want := fmt.Sprintf("%s, %d / %d", strings.Join(parts, " · "), b.Leased, b.Cap); shown(b) != want {
				equal = false
				if ctx.Err() != nil {
					t.Fatalf("%s is shown as %q; want %q", b.Name, shown(b), want)
				}
			}
		}
		page.Evaluate(`new Promise((resolve) => setTimeout(resolve, 100))`, nil)
	}
	if got := page.Text("#service-rows tr td[data-label='Sessions']"); got != "6" {
		t.Errorf("the service has %s sessions", got)
	}
	if got := page.Text("#process"); !strings.HasPrefix(got, "v0.0.1-test") {
		t.Errorf("the page says %q", got)
	}
	// They change while load runs.
	frames := `document.querySelector("#session-rows tr td[data-label='In']").textContent`
	page.Evaluate("window.framesBefore = "+frames, nil)
	page.Await(frames + " !== window.framesBefore")

	// One session.
	page.Evaluate(`document.querySelector("#session-rows tr").click()`, nil)
	page.Await(`document.querySelector("#detail dd") && !document.querySelector("#detail button.danger").disabled`)
	id := page.Text("#detail-title")
	page.Evaluate(`document.querySelector("#detail button.danger").click()`, nil)
	confirmed(page)
	if closed := <-r.ended; closed.Code != websocket.StatusServiceRestart || closed.Reason != "maintenance" {
		t.Errorf("the client got %+v", closed)
	}
	page.Await(`document.querySelector("#detail .pill").textContent === "ended" && document.querySelectorAll("#session-rows tr").length === 5`)
	page.Await(`[...document.querySelectorAll("#end-rows tr")].some((row) => row.textContent.includes("1012") && row.textContent.includes("maintenance"))`)
	page.Await(fmt.Sprintf(`document.querySelector("#audit-rows").textContent.includes("kill %s")`, id))

	// A service.
	do(page, "echo", "Pause…")
	page.Await(`document.querySelector("tr[data-name=echo] .pill").textContent === "paused" && document.querySelector("#problems").textContent.includes("service echo paused")`)
	r.client()
	page.Await(`document.querySelectorAll("#queue-rows tr").length === 1 && document.querySelector("tr[data-name=echo] td[data-label=Waiting]").textContent === "1"`)
	do(page, "echo", "Resume…")
	page.Await(`document.querySelector("tr[data-name=echo] .pill").textContent === "up" && document.querySelectorAll("#session-rows tr").length === 6 && document.querySelectorAll("#queue-rows tr").length === 0`)

	// A backend.
	do(page, "gpu-1", "Recycle connections…")
	page.Await(`document.querySelector("#audit-rows").textContent.includes("recycle gpu-1")`)
	for _, step := range [][2]string{{"Drain…", "draining"}, {"Disable…", "disabled"}, {"Enable…", "healthy"}, {"Drain…", "draining"}} {
		do(page, "gpu-1", step[0])
		page.Await(fmt.Sprintf(`document.querySelector("tr[data-name=gpu-1] .pill").textContent === %q`, step[1]))
	}
	page.Await(`document.querySelector(".history").textContent.includes("carol") && document.querySelector(".compare .edits").textContent === "~backend gpu-1: state default → draining"`)
	leased := 0
	for _, b := range r.stats().Backends {
		if b.Name == "gpu-1" {
			leased = b.Leased
		}
	}
	if leased == 0 {
		t.Fatal("gpu-1 has no session to end")
	}
	do(page, "gpu-1", "End all sessions…")
	for range leased {
		if closed := <-r.ended; closed.Code != websocket.StatusServiceRestart {
			t.Errorf("a client got %+v", closed)
		}
	}
	page.Await(fmt.Sprintf(`document.querySelectorAll("#session-rows tr").length === %d && document.querySelector("#audit-rows").textContent.includes("kill-all gpu-1")`, 6-leased))
	page.Screenshot("proxy")
	if logs := strings.TrimPrefix(browser.Logs(), login); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}
