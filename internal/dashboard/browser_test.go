package dashboard

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/api"
	"github.com/wsbouncer/wsbouncer/internal/devtools"
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
		"stt":           {"clients wait", "1 of 2 backends", "| 20 | 3 | 4.2 s | 106 % | 200 | 8 |"},
		"calm":          {"up1 of 2", "| 6 | 0 | – | 25 % | 10 | 0 |"},
		"gpu-1":         {"says full", "at most 24 of 32", "20 leased · 2 resetting · 3 idle · 1 dialing · 1 retiring", "| 27 / 32 | 0.42 ms | 0 |"},
		hostile:         {"circuit open", "5 failures in a row", "| 0 / 32 | – | 7 |"},
		"q7m2kd4x-1002": {"| relaying | stt | gpu-1 | 192.0.2.3:4002 | 2 min 00 s | 28 | 100 ms | 200 · 625 KiB | 200 · 17.6 KiB | 34 ms | – |"},
		"q7m2kd4x-2000": {"waiting 1"},
	} {
		got := cells(page, name)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q; want %q in it", name, got, part)
			}
		}
	}
	for selector, want := range map[string]string{
		"#verdict": "4 problems", "#services tbody tr:first-child strong": "stt", "#backends tbody tr:first-child strong": hostile,
		"#sessions-count": "15 live", "#process": "v1.2.3 · up 1 h 06 min · 26 sessions", "#queue-rows tr:first-child": "1sttclient",
		"#audit-rows tr": "kill q7m2kd4x-9",
	} {
		if want == "1sttclient" {
			want = "198.51.100.1:555"
		}
		if got := page.Text(selector); !strings.Contains(got, want) {
			t.Errorf("%s: got %q; want %q", selector, got, want)
		}
	}
	if got := page.Text(".compare .edits"); got != "~backend gpu-1: connections 16 → 32" {
		t.Errorf("the differences are %q", got)
	}
	if title := value[string](page, `document.title`); title != "(4) wsbouncer" {
		t.Errorf("the title is %q", title)
	}
	if images := value[int](page, `document.querySelectorAll("img").length`); images != 0 {
		t.Errorf("%d images were made of hostile texts", images)
	}
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
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
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}

var _ = api.EventStats
