package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A token that the proxy no longer accepts is asked for, even if the stream goes on: what the page asks for beside it would stand still.
func TestTokenIsReplaced(t *testing.T) {
	for _, of := range []string{"one proxy", "a fleet"} {
		t.Run(of, func(t *testing.T) {
			f := startFake(t)
			f.token = "s3cret"
			if of == "a fleet" {
				f.fleet()
			}
			page := startChromium(t).Open(f.url())
			logIn(page, "s3cret")
			page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && !document.querySelector("#token-dialog")`)
			f.update(func() {
				f.token = "other"
				f.stats.Problems = f.stats.Problems[:1] // the page asks for what was wrong before
			})
			page.Await(`document.querySelector("#token-dialog[open]")?.textContent.includes("The proxy no longer accepts the token.") && document.querySelector("#link").dataset.state === "lost"`)
			logIn(page, "other")
			page.Await(`!document.querySelector("#token-dialog") && document.querySelector("#link").dataset.state === "live"`)
		})
	}
}

// The page of a fleet is lost without the statistics of all proxies, whatever the stream of this one sends, until they come again.
func TestFleetDoesNotAnswer(t *testing.T) {
	f := startFake(t)
	f.fleet()
	page := open(t, startChromium(t), f)
	f.update(func() { f.fails[api.StatsPath] = true })
	page.Await(`document.body.dataset.lost && document.querySelector("#lost-text").textContent.startsWith("Too busy.")`)
	page.Await(`document.querySelector("#lost-next").textContent.includes("in 4 s")`) // the stream alone does not shorten the pauses again
	f.update(func() {
		f.fails[api.StatsPath] = false
		f.whole.Sessions.Active = 41
	})
	page.Await(`!document.body.dataset.lost && document.querySelector("#process").textContent.includes("41 sessions")`)
}

// Past problems that cannot be read are not asked for with each statistics.
func TestPastIsNotAskedForAtOnce(t *testing.T) {
	f := startFake(t)
	f.fails[api.ProblemsPath] = true
	page := open(t, startChromium(t), f)
	for i := range 5 {
		f.update(func() {
			f.stats.Sessions.Active = int64(70 + i)
			f.sessions = f.sessions[:10-i]
		})
		page.Await(fmt.Sprintf(`document.querySelector("#process").textContent.includes("%d sessions") && document.querySelectorAll("#session-rows tr").length === %d`, 70+i, 10-i))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.asked[api.ProblemsPath]; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// Another process of the proxy may have other contents under the same version, although it runs for longer than the page last saw.
func TestConfigurationOfAnotherProcess(t *testing.T) {
	f := startFake(t)
	page := open(t, startChromium(t), f)
	page.Await(`document.querySelector(".compare .edits").textContent.includes("connections 16 → 32")`)
	f.stop()
	page.Await(`document.body.dataset.lost`)
	for _, path := range []string{api.ConfigPath, api.ConfigPath + "/versions/7"} {
		f.contents[path] = strings.ReplaceAll(f.contents[path], `"connections": 32`, `"connections": 48`)
	}
	f.stats.UptimeSeconds += 600
	f.listen(f.address)
	page.Await(`document.querySelector(".entities").textContent.includes("connections 48") && document.querySelector(".compare .edits").textContent.includes("connections 16 → 48")`)
}

// A tab that was opened in the background lets go of the proxy after a minute, also while it connects, and comes back when it is shown.
func TestHiddenTab(t *testing.T) {
	f := startFake(t)
	f.holdWho = make(chan struct{})
	page := startChromium(t).Open("about:blank")
	page.Command("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `{
		window.isHidden = true;
		Object.defineProperty(document, "hidden", { get: () => window.isHidden });
		const later = window.setTimeout;
		window.setTimeout = (f, after, ...more) => after === 60000 ? (window.minutePasses = f, 0) : later(f, after, ...more);
	}`}, nil)
	again(page, f)
	page.Await(`window.minutePasses && document.querySelector("#link-text")?.textContent === "connecting"`)
	page.Evaluate(`minutePasses()`, nil)
	close(f.holdWho)
	page.Await(`performance.getEntriesByName(new URL("api/v1/access", document.baseURI).href).length === 1`) // it has the answer
	page.Evaluate(`fetch("api/v1/config")`, nil)
	f.mu.Lock()
	asked := f.asked[api.EventsPath]
	f.mu.Unlock()
	if asked != 0 {
		t.Error("the hidden tab reads the events")
	}
	page.Evaluate(`isHidden = false; document.dispatchEvent(new Event("visibilitychange"))`, nil)
	page.Await(`document.querySelectorAll("#session-rows tr").length > 0 && document.querySelector("#link").dataset.state === "live"`)
}
