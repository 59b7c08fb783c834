package dashboard

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
)

// testTimeout ends a test that hangs. A test that passes never waits for it.
const testTimeout = 2 * time.Minute

// startChromium starts the browser that `make test-browser` found.
func startChromium(t *testing.T) *devtools.Browser {
	t.Helper()
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		t.Skip("`make test-browser` runs this: it takes Chromium")
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return devtools.Start(t, ctx, chromium)
}

// resize sets the size of the page in pixels.
func resize(page devtools.Tab, width, height int) {
	page.Command("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
}

// prefer sets what the user prefers: light or dark.
func prefer(page devtools.Tab, scheme string) {
	page.Command("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

func value[T any](page devtools.Tab, script string) (v T) {
	page.Evaluate(script, &v)
	return v
}

// open opens the dashboard of a fake proxy and waits until it shows its sessions.
func open(t *testing.T, browser *devtools.Browser, f *fakeProxy) devtools.Tab {
	t.Helper()
	page := browser.Open(f.url())
	resize(page, 1440, 900)
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && document.querySelectorAll("#end-rows tr").length > 0`)
	return page
}

// cells returns the texts of a row of a table, by its data-name or data-id.
func cells(page devtools.Tab, name string) string {
	return value[string](page, fmt.Sprintf(`[...[...document.querySelectorAll("tr")].find((row) => [row.dataset.name, row.dataset.id].includes(%q)).children].map((c) => c.textContent).join(" | ")`, name))
}

func TestShowsWhatTheAPISays(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := open(t, browser, f)
	page.Await(`document.querySelectorAll("#queue-rows tr").length === 3 && document.querySelectorAll(".history > li").length === 3`)
	page.Screenshot("fake-light")
	for name, want := range map[string][]string{
		"stt":           {"clients wait", "1 of 2 backends · least-loaded · failover replay, visible", "| 20 | 3 | 4.2 s | 106 % | 200 | 5 | 1 | 0 |"},
		"acme":          {"acmestt | 2 | 18 | 1 | 6 of 8 | 1,100 | 4"},
		"idle":          {"idle | 1 | 0 | 0 | – | 0 | 0"},
		"calm":          {"degraded1 of 2", "| 6 | 0 | – | 25 % | 10 | 0 | 0 | 0 |"},
		"gpu-1":         {"healthycircuit closed · probe up", "20 leased · 2 resetting · 3 idle · 1 dialing · 1 retiring", "| 20 / 24 of 32 | – | 0.42 ms | 2.3 s | 03 stalls · 6 moved · 1 not moved |", "canary ok · first result in 340 ms"},
		hostile:         {"circuit openfor 2 min", "s: connection refused <img", "| 0 / 32 | – | – | – | 7 |", "canary fails: no result within 10s <img", " · first result in 410 ms the last time"},
		"gpu-3":         {"slowfor 1 min", "s: its first reply takes 900ms", "| 900 ms |"},
		"q7m2kd4x-1002": {"| relaying | stt | gpu-1 | 192.0.2.3:4002 | 2 min 00 s | 28 | 100 ms | 200 · 625 KiB | 200 · 17.6 KiB | 34 ms | – | assured · 64.0 KiB · moved twice |"},
		"q7m2kd4x-1003": {"| not assured: the audio is older than the window " + hostile},
		"q7m2kd4x-2000": {"waiting (1.)"},
	} {
		got := cells(page, name)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q; want %q in it", name, got, part)
			}
		}
	}
	for selector, want := range map[string]string{
		"#verdict": "2 problems hurt clients, 1 other", "#services tbody tr:first-child strong": "stt", "#backends tbody tr:first-child strong": hostile,
		"#sessions-count": "15 live", "#process": "v1.2.3 · up 1 h 06 min · 26 sessions", "#queue-rows tr:first-child": "1sttclient",
		"#failover":                      "Replay memory: 12.0 MiB of 1.0 GiB in use (1 %) · in the last hour, 3 sessions moved to another backend, 1 could not",
		"#audit-rows tr":                 "kill q7m2kd4x-9",
		"#problems li:first-child":       "hurts clientsservice stt 3 clients wait, the first for 4.2s for 2 min",
		"#problems li:first-child .kind": "service-waiting",
		"#ends-count":                    "that ended, since ",
		"#problems li:first-child .cure": "wsbouncer backend add NAME URL --connections N --service stt --admin unix:/run/admin.sock",
		"#problems li:nth-child(3)":      "may hurt soonbackend " + hostile,
		"#past-rows tr:first-child":      "1 min 03 sservice stt3 clients wait",
		"#problems li:nth-child(3) code": "connection",
		"#tenant-note":                   "In parentheses: not configured, with the share and the limits of 'default'; and 2 more that are not configured",
		"#tenant-rows":                   "(" + hostile + ")",
		"#certificate-rows tr":           "/etc/wsbouncer/old.pemadmin APIexpiredstt.example.com, 10.0.0.1",
		"#certificate-rows":              "/etc/wsbouncer/new.pemvalid*.example.com",
		"#handshakes":                    "TLS handshakes since the start: 1,234 succeeded, 7 failed (refused-by-client 7)",
		"#certificates-failure":          "the key does not fit",
		".charts figure:last-child":      "Failed and refused0.1/s failed · 0/s refused",
		".entities":                      "1 service",
		"#past-note":                     "It cannot be written to disk: the disk is full",
		"#all-past":                      "Show all 10",
	} {
		if want == "1sttclient" {
			want = "198.51.100.1:555"
		}
		if got := page.Text(selector); !strings.Contains(got, want) {
			t.Errorf("%s: got %q; want %q", selector, got, want)
		}
	}
	if got := page.Text(".compare .edits"); got != "~backend gpu-1: connections 16 → 32+tenant acme: share 2+key phone: tenant acme" {
		t.Errorf("the differences are %q", got)
	}
	if got := value[string](page, `[...document.querySelectorAll(".entities summary")].map((s) => s.textContent).join()`); got != "1 service,1 backend,1 tenant,1 key" {
		t.Errorf("the configuration has %s", got)
	}
	for table, want := range map[string]string{"services": "Service State Sessions Waiting Longest Utilisation Queue limit Timed out Full Evicted Actions", "sessions": "Session State Service Backend Client Age Msg/s Lag In Out First reply Waited"} {
		if got := value[string](page, fmt.Sprintf(`[...document.querySelectorAll("table.%s thead th")].filter((th) => th.checkVisibility()).map((th) => th.textContent).join(" ")`, table)); !strings.HasPrefix(got, want) {
			t.Errorf("the heads of %s are %s; want %s, as the commands call them", table, got, want)
		}
	}
	if got := value[string](page, `import("./static/format.js").then((f) => [9.94, 9.96, 17.96, 59.99, 119.9, 3599.9].map(f.duration).join(", "))`); got != "9.9 s, 9 s, 17 s, 59 s, 1 min 59 s, 59 min 59 s" {
		t.Errorf("durations are cut off as %s", got)
	}
	if wrong := value[string](page, overlapping); wrong != "" {
		t.Errorf("labels of charts overlap: %s", wrong)
	}
	if title := value[string](page, `document.title`); title != "(3) wsbouncer" {
		t.Errorf("the title is %q", title)
	}
	if images := value[int](page, `document.querySelectorAll("img").length`); images != 0 {
		t.Errorf("%d images were made of hostile texts", images)
	}
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}

// Why sessions ended is counted over all that the proxy keeps, also those of the processes before it.
func TestEndsBeforeARestart(t *testing.T) {
	f := startFake(t)
	f.restarted = true
	browser := startChromium(t)
	page := open(t, browser, f) // it waits for an end
	if got, want := page.Text("#ends-count"), fmt.Sprintf("the last %d sessions that ended, since ", len(f.ended)); !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// The page never shows a part of the ended sessions as if they were all: it waits for the list, and then shows it without another event.
func TestEndsOfAFreshPage(t *testing.T) {
	f := startFake(t)
	f.holdEnds = make(chan struct{})
	f.ended[0].Reason = "known to the list only"
	browser := startChromium(t)
	page := browser.Open(f.url())
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0`)
	if got := page.Text("#ends-count") + value[string](page, `[...document.querySelectorAll("table.ends tbody tr")].map((row) => row.textContent).join()`); got != "The page reads which sessions have ended." {
		t.Errorf("before the list has come, the page shows %q", got)
	}
	close(f.holdEnds)
	page.Await(`document.querySelector("#end-rows")?.textContent.includes("known to the list only")`)
	page.Await(fmt.Sprintf(`document.querySelector("#ends-count").textContent.startsWith("the last %d sessions")`, len(f.ended)))
}

// The queue is that of the moment of the statistics, and its number is that of its rows.
func TestQueueIsOfTheSameMoment(t *testing.T) {
	f := startFake(t)
	page := open(t, startChromium(t), f)
	page.Await(`document.querySelectorAll("#queue-rows tr").length === 3 && document.querySelector("#queue-count").textContent === "3 clients"`)
	f.update(func() { // the proxy had counted its queue before the client left
		f.stats.Services[1].Queue.Waiting = 3
		f.sessions = f.sessions[:14]
	})
	page.Await(`document.querySelectorAll("#queue-rows tr").length === 2`)
	if got := page.Text("#queue-count"); got != "2 clients" {
		t.Errorf("above two rows, the page says %q", got)
	}
}

func TestUpdates(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := open(t, browser, f)
	f.update(func() {
		f.stats.Backends = f.stats.Backends[2:3]
		f.stats.Services = f.stats.Services[:1]
		f.stats.Sessions.Active = 77
		f.sessions = f.sessions[:2]
		f.sessions[0].FramesPerSecond = 3
	})
	page.Await(`document.querySelectorAll("#session-rows tr").length === 2 && document.querySelectorAll("#backend-rows tr").length === 1`)
	if got := value[string](page, `document.querySelector("#session-rows tr").dataset.id`); got != "q7m2kd4x-1001" {
		t.Errorf("the session with the highest rate is %s", got)
	}
	if got := page.Text("#process"); !strings.Contains(got, "77 sessions") {
		t.Errorf("got %q", got)
	}
	// A backend with a problem is named like it, and its service is not said to be up.
	f.update(func() {
		f.stats.Problems = append([]api.Problem{{
			Kind: "backend-hung", Level: api.LevelFailure, Hurts: api.HurtsClients, What: "backend gpu-3", Service: "calm", Backend: "gpu-3",
			Text: "hung: 4 of 4 sessions have had no result for up to 16s", Since: time.Now(),
		}}, f.stats.Problems...)
	})
	page.Await(`document.querySelector("#backend-rows .pill").textContent === "hung" && document.querySelector("#backend-rows tr").textContent.includes(": 4 of 4 sessions have had no result")`)
	page.Await(`document.querySelector("#service-rows .pill").textContent === "degraded" && document.querySelector("#service-rows .pill").dataset.level === "bad"`)
	// Of many backends, the rest is shown on demand.
	f.update(func() {
		for i := range 60 {
			b := f.stats.Backends[0]
			b.Name = fmt.Sprintf("gpu-%d", i+100)
			f.stats.Backends = append(f.stats.Backends, b)
		}
	})
	page.Await(`document.querySelectorAll("#backend-rows tr").length === 24 && document.querySelector("#all-backends").textContent === "Show all 61 backends"`)
	page.Evaluate(`document.querySelector("#all-backends").click()`, nil)
	page.Await(`document.querySelectorAll("#backend-rows tr").length === 61`)
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}

// overlapping finds charts whose time labels touch the 0 of the other axis.
const overlapping = `(() => {
	const wrong = [];
	for (const figure of document.querySelectorAll("#charts figure")) {
		const canvas = figure.querySelector("canvas");
		const scale = canvas.width / canvas.getBoundingClientRect().width;
		const bottom = figure.querySelector(".u-over").getBoundingClientRect().bottom - canvas.getBoundingClientRect().top;
		// The 0 reaches half a line below the axis: then a line of the canvas must be empty before the times begin.
		const rows = canvas.getContext("2d").getImageData(0, Math.round((bottom + 2) * scale), canvas.width, Math.round(canvas.height - (bottom + 2) * scale)).data;
		const filled = [];
		for (let y = 0; y < rows.length / 4 / canvas.width; y++) filled.push(rows.subarray(4 * y * canvas.width, 4 * (y + 1) * canvas.width).some((value) => value > 0));
		const begin = filled.indexOf(true);
		const gap = filled.indexOf(false, begin);
		if (begin < 0 || gap < 0 || filled.indexOf(true, gap) < 0) wrong.push(figure.querySelector("figcaption").textContent);
	}
	return wrong.join("; ");
})()`

// act opens the menu of a row, chooses an entry, and returns the text of the dialog that asks for confirmation.
func act(page devtools.Tab, name, entry string) string {
	page.Evaluate(fmt.Sprintf(`{
		const row = [...document.querySelectorAll("tr")].find((row) => row.dataset.name === %q);
		row.querySelector("summary").click();
	}`, name), nil)
	page.Await(fmt.Sprintf(`[...document.querySelectorAll("details[open] button")].some((b) => b.textContent === %q)`, entry))
	page.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("details[open] button")].find((b) => b.textContent === %q).click()`, entry), nil)
	page.Await(`document.querySelector("dialog[open]")`)
	return page.Text("dialog")
}

// confirm fills in the dialog and submits it.
func confirm(page devtools.Tab, why string) {
	page.Evaluate(fmt.Sprintf(`{
		const form = document.querySelector("dialog form");
		form.elements.who.value = "carol";
		form.elements.why.value = %q;
		form.querySelector("button[type=submit]").click();
	}`, why), nil)
}

func TestActions(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := open(t, browser, f)
	for _, c := range []struct {
		name, entry string
		says        string // what will happen
		sends       string
	}{
		{"gpu-3", "Drain…", "gpu-3 gets no new sessions.4 sessions on it go on until they end.", `POST /api/v1/config/changes {"who":"carol","why":"because","mutations":[{"verb":"set","kind":"backend","name":"gpu-3","values":{"state":"draining"}}]}`},
		{"gpu-3", "Disable…", "Its idle connections are closed now.No other backend of calm takes sessions", `"values":{"state":"disabled"}`},
		{"gpu-4", "Enable…", "gpu-4 gets sessions again", `"values":{"state":"enabled"}`},
		{"gpu-1", "Recycle connections…", "3 idle connections are replaced now", `POST /api/v1/backends/gpu-1/recycle {"who":"carol","why":"because"}`},
		{"gpu-1", "End all sessions…", "20 clients of gpu-1 get close code 1012", `DELETE /api/v1/sessions?backend=gpu-1&within=30s {"who":"carol","why":"because"}`},
		{"stt", "Pause…", "The queue takes 200 clients", `POST /api/v1/services/stt/pause {"who":"carol","why":"because"}`},
	} {
		if says := act(page, c.name, c.entry); !strings.Contains(says, c.says) {
			t.Errorf("%s of %s: the dialog says %q; want %q", c.entry, c.name, says, c.says)
		}
		confirm(page, "because")
		page.Await(`!document.querySelector("dialog")`)
		if got := f.changes(); !strings.Contains(got, c.sends) {
			t.Errorf("%s of %s: the proxy got %s; want %s", c.entry, c.name, got, c.sends)
		}
	}
	f.update(func() { f.stats.Services[1].Paused = true })
	page.Await(`document.querySelector("#service-rows tr[data-name=stt] .pill").textContent === "paused"`)
	act(page, "stt", "Resume…")
	confirm(page, "")
	page.Await(`!document.querySelector("dialog")`)

	// A session, found with the keyboard alone.
	page.Evaluate(`document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true}))`, nil)
	if id := value[string](page, `document.activeElement.id`); id != "filter" {
		t.Errorf("/ leads to %q", id)
	}
	press := func(key string) {
		page.Evaluate(fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true, cancelable: true}))`, key), nil)
	}
	page.Evaluate(`document.activeElement.value = "-1005"; document.activeElement.dispatchEvent(new Event("input", {bubbles: true}))`, nil)
	page.Await(`document.querySelectorAll("#session-rows tr").length === 1`)
	press("ArrowDown")
	press("Enter")
	page.Await(`document.querySelector("#detail dd") && !document.querySelector("#detail button.danger").disabled`)
	page.Screenshot("fake-detail")
	if got := page.Text("#detail"); !strings.Contains(got, "q7m2kd4x-c17") || !strings.Contains(got, "/v1/stt/"+hostile) || !strings.Contains(got, "the client's end of stream") {
		t.Errorf("the details are %q", got)
	}
	page.Evaluate(`document.querySelector("#detail button.danger").click()`, nil)
	page.Await(`document.querySelector("dialog[open]")`)
	confirm(page, "too long")
	page.Await(`!document.querySelector("dialog")`)
	press("Escape")
	page.Await(`document.querySelector("#detail").hidden`)
	if id := value[string](page, `document.activeElement.dataset.id ?? ""`); id != "q7m2kd4x-1005" {
		t.Errorf("after Esc the focus is on %q", id)
	}
	for _, want := range []string{"POST /api/v1/services/stt/resume ", `DELETE /api/v1/sessions/q7m2kd4x-1005 {"who":"carol","why":"too long"}`} {
		if got := f.changes(); !strings.Contains(got, want) {
			t.Errorf("the proxy got %s; want %s", got, want)
		}
	}
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}

func TestShowsRefusals(t *testing.T) {
	f := startFake(t)
	f.readOnly = true
	page := open(t, startChromium(t), f)
	act(page, "gpu-3", "Drain…")
	confirm(page, "because")
	page.Await(`!document.querySelector("dialog [role=alert]").hidden`)
	if got := page.Text("dialog [role=alert]"); !strings.Contains(got, "read-only here") {
		t.Errorf("the refusal is shown as %q", got)
	}
	// A required field that is empty sends nothing.
	before := f.changes()
	confirm(page, "")
	if valid := value[bool](page, `document.querySelector("dialog form").checkValidity()`); valid || f.changes() != before {
		t.Error("a change without a reason is sent")
	}
	page.Evaluate(`document.querySelector("dialog button[type=button]").click()`, nil)
	page.Await(`!document.querySelector("dialog")`)
	// An id that is not known.
	page.Evaluate(`{
		const filter = document.querySelector("#filter");
		filter.value = "q7m2kd4x-77";
		filter.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
	}`, nil)
	page.Await(`document.querySelector("#detail [role=alert]") && !document.querySelector("#detail [role=alert]").hidden`)
	if got := page.Text("#detail [role=alert]"); got != `unknown session "q7m2kd4x-77"` {
		t.Errorf("got %q", got)
	}
}

func TestProxyGoesAndComesBack(t *testing.T) {
	f := startFake(t)
	page := open(t, startChromium(t), f)
	page.Evaluate(`window.samePage = true`, nil)
	f.stop()
	page.Await(`document.body.dataset.lost && !document.querySelector("#lost").hidden`)
	if got := page.Text("#lost"); !strings.Contains(got, "The page shows what it knew last.") || !strings.Contains(got, "Next attempt") {
		t.Errorf("the page says %q", got)
	}
	if got := value[string](page, `document.querySelector("#lost").closest("[role=alert]") ? "all" : document.querySelector("#lost [role=alert]").textContent`); !strings.HasSuffix(got, "knew last.") {
		t.Errorf("a screen reader speaks %q with each second of the countdown", got)
	}
	if rows := value[int](page, `document.querySelectorAll("#session-rows tr").length`); rows != 15 {
		t.Errorf("%d sessions are still shown", rows)
	}
	f.stats.Sessions.Active = 99
	f.stats.UptimeSeconds = 1
	f.listen(f.address)
	page.Await(`!document.body.dataset.lost && document.querySelector("#process").textContent.includes("99 sessions")`)
	if same := value[bool](page, `window.samePage === true && document.querySelector("#lost").hidden`); !same {
		t.Error("the page was loaded again, or still shows the proxy as unreachable")
	}
}

// logIn enters a token in the form.
func logIn(page devtools.Tab, token string) {
	page.Await(`document.querySelector("#token-dialog[open]")`)
	page.Evaluate(fmt.Sprintf(`{
		const form = document.querySelector("#token-dialog form");
		form.elements.token.value = %q;
		form.querySelector("button").click();
	}`, token), nil)
}

// again opens the page again, which has finished when it returns.
func again(page devtools.Tab, f *fakeProxy) {
	page.Command("Page.navigate", map[string]any{"url": f.url()}, nil)
}

func TestLogsIn(t *testing.T) {
	f := startFake(t)
	f.token, f.reader = "s3cret", "r3ader"
	page := startChromium(t).Open(f.url())
	resize(page, 1440, 900)
	logIn(page, "wrong")
	page.Await(`document.querySelector("#token-dialog [role=alert]")?.textContent.startsWith("Not logged in: the admin API needs a token")`)
	if left := value[string](page, `document.querySelector("#token-dialog input").value`); left != "" {
		t.Errorf("the form still has %q", left)
	}
	page.Screenshot("login")
	logIn(page, "s3cret")
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && !document.querySelector("#token-dialog")`)
	if kept := value[string](page, `sessionStorage.getItem("wsbouncer.token") + " " + localStorage.length + " " + document.cookie`); kept != "s3cret 0 " {
		t.Errorf("kept is %q", kept)
	}
	if shown := page.Text("#access"); shown != "operator" {
		t.Errorf("the page says %q", shown)
	}
	again(page, f)
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && !document.querySelector("#token-dialog")`)
	page.Evaluate(`document.querySelector("#sign-out").click()`, nil)
	again(page, f)
	page.Await(`document.querySelector("#token-dialog[open]")`)
	if kept := value[int](page, `sessionStorage.length`); kept != 0 {
		t.Errorf("after the logout, the tab keeps %d values", kept)
	}
	// A token that was kept for long enough is forgotten.
	logIn(page, "s3cret")
	page.Await(`!document.querySelector("#token-dialog") && sessionStorage.getItem("wsbouncer.until") > Date.now()`)
	page.Evaluate(`sessionStorage.setItem("wsbouncer.until", Date.now())`, nil)
	again(page, f)
	page.Await(`document.querySelector("#token-dialog[open]") && sessionStorage.length === 0`)
}

// Readers see everything, and nothing with which to act.
func TestReadersSeeNoActions(t *testing.T) {
	f := startFake(t)
	f.token, f.reader = "s3cret", "r3ader"
	browser := startChromium(t)
	page := browser.Open(f.url())
	resize(page, 1440, 900)
	actions := func() int {
		return value[int](page, `[...document.querySelectorAll(".menu summary, .menu button, button.danger")].filter((node) => node.checkVisibility()).length`)
	}
	logIn(page, "r3ader")
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && document.querySelector("#access").textContent === "reader"`)
	page.Evaluate(`{
		const row = document.querySelector("#session-rows tr");
		row.focus();
		row.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
	}`, nil)
	page.Await(`document.querySelector("#detail dd")`)
	page.Screenshot("reader")
	if n := actions(); n != 0 {
		t.Errorf("a reader sees %d actions", n)
	}
	page.Evaluate(`document.querySelector("#sign-out").click()`, nil)
	again(page, f)
	logIn(page, "s3cret")
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && document.querySelector("#access").textContent === "operator"`)
	if n := actions(); n == 0 {
		t.Error("an operator sees no actions")
	}
	f.update(func() {
		f.audit = append(f.audit, api.Action{Time: time.Now(), Action: "pause", Target: "stt", Result: api.ResultRefused, Caller: "reader token", From: "192.0.2.9:1", Detail: "readers may only read"})
	})
	again(page, f)
	page.Await(`document.querySelector("#audit-rows tr[data-result=refused]")?.textContent.includes("reader token") &&
		document.querySelector("#audit-rows tr[data-result=refused]").textContent.includes("refused: readers may only read")`)
}

// measure finds texts whose contrast is too low (WCAG 2.2, 1.4.3), and controls that have no name or are too small (2.5.8).
const measure = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = color;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (node) => {
		for (; node; node = node.parentElement) {
			const color = rgba(getComputedStyle(node).backgroundColor);
			if (color[3] === 255) return color;
		}
		return [255, 255, 255, 255];
	};
	const visible = (node) => node.checkVisibility() && !node.closest(".unseen, .skip") && node.getBoundingClientRect().width > 1;
	const wrong = [];
	let texts = 0;
	for (const node of document.querySelectorAll("body *")) {
		if (!visible(node) || ![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
		texts++;
		const [a, b] = [luminance(rgba(getComputedStyle(node).color)), luminance(ground(node))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) wrong.push(contrast.toFixed(2) + " for " + node.tagName + "." + node.className + " " + node.textContent.slice(0, 40));
	}
	for (const node of document.querySelectorAll("a, button, input, select, summary, [tabindex]:not(tr):not(section)")) {
		if (!visible(node)) continue;
		const name = node.getAttribute("aria-label") || node.labels?.[0]?.textContent || (node.matches("input, select") ? "" : node.textContent);
		if (!name?.trim()) wrong.push("no name: " + node.outerHTML.slice(0, 80));
		const box = node.getBoundingClientRect();
		if (!node.matches("a") && (box.height < 24 || box.width < 24)) wrong.push("small: " + node.outerHTML.slice(0, 80) + " " + box.width + "x" + box.height);
	}
	for (const node of document.querySelectorAll("[aria-labelledby]")) {
		if (!document.getElementById(node.getAttribute("aria-labelledby"))) wrong.push("no label " + node.getAttribute("aria-labelledby"));
	}
	const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
	if (new Set(ids).size !== ids.length) wrong.push("an id exists twice");
	if (texts < 100) wrong.push("only " + texts + " texts were measured");
	return wrong.join("\n");
})()`

func TestLooks(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := open(t, browser, f)
	page.Await(`document.querySelectorAll("#queue-rows tr").length === 3 && document.querySelectorAll(".history > li").length === 3`)
	grounds := make(map[string]string)
	for _, scheme := range []string{"light", "dark"} {
		prefer(page, scheme)
		for _, width := range []int{1440, 800, 360} {
			resize(page, width, 900)
			page.Evaluate(`new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))`, nil)
			if wrong := value[string](page, measure); wrong != "" {
				t.Errorf("%s, %d px wide:\n%s", scheme, width, wrong)
			}
			if wide := value[int](page, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s, %d px wide: the page has %d px: %s", scheme, width, wide, value[string](page, fmt.Sprintf(
					`[...document.querySelectorAll("main *, header *, footer *")].filter((node) => node.checkVisibility() && !node.closest(".unseen, thead, .u-over") && node.getBoundingClientRect().right > %d).map((node) => node.tagName + "." + node.className).slice(0, 12).join(" ")`, width)))
			}
			page.Screenshot(fmt.Sprintf("fake-%s-%d", scheme, width))
		}
		grounds[scheme] = value[string](page, `getComputedStyle(document.body).backgroundColor`)
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark are both %s", grounds["light"])
	}
	// The switch wins over what the system prefers, and is kept.
	page.Evaluate(`document.querySelector("#theme").click()`, nil)
	if got := value[string](page, `getComputedStyle(document.body).backgroundColor`); got != grounds["light"] || page.Text("#theme") != "Theme: light" {
		t.Errorf("with the switch at %q the ground is %s", page.Text("#theme"), got)
	}
	page.Command("Page.reload", nil, nil)
	page.Await(`document.querySelector("#theme") && document.querySelector("#theme").textContent === "Theme: light"`)
	if got := value[string](page, `getComputedStyle(document.body).backgroundColor`); got != grounds["light"] {
		t.Errorf("after a reload the ground is %s", got)
	}
	// No motion for users who want none.
	page.Command("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	page.Await(`document.querySelector(".pool i")`)
	if got := value[string](page, `getComputedStyle(document.querySelector(".pool i")).transitionDuration`); got != "0s" {
		t.Errorf("the bars move for %s", got)
	}
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}

// A session's details show what is kept of it and each of its moves, as text.
func TestShowsMoves(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := open(t, browser, f)
	page.Evaluate(`document.querySelector("tr[data-id='q7m2kd4x-1002']").click()`, nil)
	page.Await(`document.querySelectorAll("#detail .moves li").length === 2`)
	got := page.Text("#detail")
	for _, want := range []string{
		"yes: another backend could go on with it", "12.3 s, answered up to 10.2 s", "64.0 KiB, in 96.0 KiB of memory", "twice to another backend",
		"gpu-3 → " + hostile, "stalled · replayed 2.0 s · took 310 ms", hostile + " → gpu-1", "drained · replayed nothing · took –",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the details have no %q: %s", want, got)
		}
	}
	page.Screenshot("fake-moves")
	// What became of the connection of an ended session is said in words.
	f.update(func() { f.ended[2].Fate = "resetting" })
	page.Evaluate(`{
		const filter = document.querySelector("#filter");
		filter.value = "q7m2kd4x-502";
		filter.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
	}`, nil)
	page.Await(`document.querySelector("#detail").textContent.includes("Connectionreset, then returned; discarded if the reset failed")`)
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}
