package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
)

// choose chooses an option of a select, as a user does.
func choose(page devtools.Tab, selector, option string) {
	page.Evaluate(fmt.Sprintf(`{
		const select = document.querySelector(%q);
		select.value = %q;
		select.dispatchEvent(new Event("change"));
	}`, selector, option), nil)
}

// A filter that the page no longer shows filters nothing: a backend of another service, or one that was removed.
func TestFiltersThatAreGone(t *testing.T) {
	f := startFake(t)
	page := open(t, startChromium(t), f)
	choose(page, "#filter-backend", "gpu-1")
	page.Await(`document.querySelectorAll("#session-rows tr").length === 12`)
	choose(page, "#filter-service", "calm")
	calm := f.sessions[0]
	calm.ID, calm.Service, calm.Backend = "q7m2kd4x-3000", "calm", "gpu-3"
	f.update(func() { f.sessions = append(f.sessions, calm) })
	page.Await(`document.querySelector("#session-rows tr")?.dataset.id === "q7m2kd4x-3000"`)
	choose(page, "#filter-backend", "gpu-3")
	calm.ID, calm.Backend = "q7m2kd4x-3001", "gpu-4"
	f.update(func() {
		f.sessions = append(f.sessions, calm)
		f.stats.Backends = append(f.stats.Backends[:2:2], f.stats.Backends[3])
	})
	page.Await(`document.querySelector("#filter-backend").value === "" && document.querySelector("#session-rows tr[data-id='q7m2kd4x-3001']")`)
}

// A row of "Ends by reason" leads to the sessions that it counts, however many have ended since, and whatever others of the fleet have.
func TestEndsLeadToTheirSessions(t *testing.T) {
	for _, of := range []string{"one proxy", "a fleet"} {
		t.Run(of, func(t *testing.T) {
			f := startFake(t)
			now := time.Now().UTC()
			f.ended = nil
			for i := range 700 {
				s := api.Session{
					ID: fmt.Sprintf("q7m2kd4x-%d", 5000+i), Service: "stt", Backend: "gpu-1", Client: "203.0.113.9:1", State: api.StateEnded, Started: now.Add(-time.Hour),
					Ended: now.Add(-time.Duration(i) * time.Second), By: "client", Code: 1000, Fate: "returned",
				}
				switch {
				case i >= 690:
					s.By, s.Code, s.Reason = "backend", 1011, fmt.Sprintf("%dms without an answer", i)
				case i >= 670:
					s.By, s.Code, s.Reason = "backend", 1011, "backend connection lost"
				}
				f.ended = append(f.ended, s)
			}
			if of == "a fleet" {
				f.fleet()
			}
			page := open(t, startChromium(t), f)
			choose(page, "#filter-service", "calm")
			for _, c := range []struct {
				reason string
				n      int
			}{{"backend connection lost", 20}, {"… without an answer", 10}, {"no reason given", 670}} {
				page.Await(fmt.Sprintf(`(window.row = [...document.querySelectorAll("#end-rows tr")].find((row) => row.querySelector("button").textContent === %q))?.cells[0].textContent === "%d"`, c.reason, c.n))
				page.Evaluate(`row.querySelector("button").click()`, nil)
				page.Await(fmt.Sprintf(`document.querySelectorAll("#session-rows tr").length === %d && document.querySelector("#sessions-count").textContent === "%d ended"`, c.n, c.n))
				f.update(func() {}) // the page shows them anew
			}
			page.Await(`document.querySelector("#sessions-note").textContent.startsWith("The sessions of a row")`)
			choose(page, "#filter-backend", "gpu-1")
			page.Await(`document.querySelector("#sessions-note").textContent === "" && document.querySelector("#sessions-count").textContent.endsWith(" of 700 ended")`)
			if got := page.Text("#sessions-count"); !strings.HasPrefix(got, "500") {
				t.Errorf("got %q", got)
			}
		})
	}
}
