package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// fleet makes the proxy one of three: another one serves, and the third cannot be asked.
func (f *fakeProxy) fleet() {
	fleet := api.Fleet{Mode: api.FleetShare, Proxies: []api.Proxy{
		{ID: "a000000000000001", Name: "proxy-a", Self: true, Version: "v1.2.3", State: api.ProxyServing, Sessions: 26, Places: 40, Configuration: "7"},
		{ID: "b000000000000002", Name: "proxy-b " + hostile, Version: "v1.2.3", Address: "http://10.0.0.6:9090", State: api.ProxyServing, SeenSeconds: 0.4, Sessions: 14, Places: 20, Configuration: "7"},
		{ID: "c000000000000003", Name: "proxy-c", Version: "v1.2.2", Address: "http://10.0.0.7:9090", State: api.ProxyUnseen, SeenSeconds: 12, Sessions: 3, Places: 12, Configuration: "6", Problem: "not seen for 12 s"},
	}}
	f.stats.Fleet = &fleet
	f.stats.Configuration.Source = "postgres://wsbouncer_proxy@ledger.of.all.proxies.example.com:5432/wsbouncer" // the page must break it
	whole, all := f.stats, fleet
	all.Whole, all.Missing = true, []api.MissingProxy{{ID: "c000000000000003", Name: "proxy-c", Why: "not seen for 12 s: its sessions are not known"}}
	whole.Problems = append([]api.Problem{{
		Kind: "fleet-proxy-missing", Level: api.LevelFailure, Hurts: api.HurtsSoon, What: "proxy proxy-c", Text: "not seen for 12 s: its sessions are not known", Proxies: []string{"proxy-a"},
	}}, whole.Problems...)
	whole.Sessions.Active, whole.Sessions.Total = 40, 98765
	whole.Fleet = &all
	f.whole = &whole
}

// The page shows all proxies, and says which are missing; the switch shows this one only.
func TestShowsFleet(t *testing.T) {
	f := startFake(t)
	f.fleet()
	browser := startChromium(t)
	page := open(t, browser, f)
	page.Await(`document.querySelector("#process").textContent.includes("40 sessions") && document.querySelectorAll("#proxy-rows tr").length === 3`)
	page.Await(`document.querySelector("#session-rows").textContent.includes("proxy-b ")`)
	page.Await(`document.querySelector("#past-rows").textContent.includes("(proxy-b)")`)
	if got := value[string](page, `document.querySelector("#order").value + " " + [...document.querySelectorAll("#order option")].filter((o) => o.hidden).map((o) => o.value)`); got != "lag rate" {
		t.Errorf("the order, and those that are not offered: %s", got)
	}
	if got := page.Text("#totals"); strings.Contains(got, "98,765") {
		t.Errorf("beside the ends of this proxy, the page has the sums of all: %s", got)
	}
	for selector, want := range map[string]string{
		"#fleet-note":       "Sums of 2 of 3 proxies: 1 cannot be asked.",
		"#problems":         "proxy proxy-c not seen for 12 s: its sessions are not known (seen by proxy-a)",
		"#proxy-rows":       "proxy-b " + hostile + "b0000000 · http://10.0.0.6:9090serving",
		"#proxy-rows .pill": "unseen",
	} {
		if got := page.Text(selector); !strings.Contains(got, want) {
			t.Errorf("%s has no %q: %s", selector, want, got)
		}
	}
	if wrong := value[string](page, measure); wrong != "" {
		t.Error(wrong)
	}
	page.Screenshot("fake-fleet")
	resize(page, 360, 900)
	if wide := value[int](page, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page has %d px", wide)
	}
	page.Screenshot("fake-fleet-360")
	resize(page, 1440, 900)
	page.Evaluate(`(() => { const view = document.querySelector("#fleet-view"); view.value = "one"; view.dispatchEvent(new Event("change")); })()`, nil)
	page.Await(`document.querySelector("#process").textContent.includes("26 sessions")`)
	page.Await(`document.querySelector("#order").value === "lag"`)
	page.Await(`!document.querySelector("#past-rows").textContent.includes("(proxy-b)")`)
	if got := page.Text("#fleet-note"); got != "The page shows this proxy only." {
		t.Errorf("the note says %q", got)
	}
	// Of many proxies, those that need an operator come first, and the rest is shown on demand.
	f.update(func() {
		for i := range 9 {
			f.stats.Fleet.Proxies = append(f.stats.Fleet.Proxies, api.Proxy{ID: fmt.Sprintf("d%015d", i), Name: fmt.Sprintf("proxy-d%d", i), State: api.ProxyServing})
		}
	})
	page.Await(`document.querySelectorAll("#proxy-rows tr").length === 8 && document.querySelector("#all-proxies").textContent === "Show all 12 proxies"`)
	if got := value[string](page, `[...document.querySelectorAll("#proxy-rows strong")].slice(0, 2).map((name) => name.textContent).join(" ")`); got != "proxy-c proxy-a" {
		t.Errorf("the first proxies are %s", got)
	}
	page.Evaluate(`document.querySelector("#all-proxies").click()`, nil)
	page.Await(`document.querySelectorAll("#proxy-rows tr").length === 12`)
	if logs := browser.Logs(); logs != "" {
		t.Errorf("the page logged %s", logs)
	}
}
