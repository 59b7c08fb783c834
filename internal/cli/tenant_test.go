package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestTenants(t *testing.T) {
	s := onProxy(t, open)
	s.must("service add stt")
	if out := s.must("tenant add acme --share 2 --guaranteed stt=4 --guaranteed mt=2 --session-limit 20"); !strings.Contains(out, "tenant acme: added (share 2, guaranteed.mt 2, guaranteed.stt 4, session-limit 20)") {
		t.Errorf("add prints %q", out)
	}
	s.must("tenant add globex")
	s.mu.Lock()
	s.stats = func() api.Stats {
		return api.Stats{
			Services: []api.Service{{Name: "stt"}},
			Tenants: []api.Tenant{
				{Name: "acme", Share: 2, Sessions: 3, Waiting: 7, Totals: api.TenantTotals{Sessions: 40, Queued: 30, TimedOut: 4, Full: 5, Evicted: 6, Limited: 909}, Services: []api.TenantService{
					{Service: "stt", Sessions: 3, Waiting: 7, Guaranteed: 4, Kept: 3},
				}},
				{Name: "bad\x1b[31m", Unconfigured: true, Share: 1, Sessions: 1, Totals: api.TenantTotals{Sessions: 1}},
			},
		}
	}
	s.mu.Unlock()
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(s.must("tenant ls -o wide")), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"NAME SHARE GUARANTEED LIMITS SESSIONS WAITING REFUSED SESSIONS SO FAR TIMED OUT FULL EVICTED LIMITED",
		"acme 2 mt=2,stt=3 of 4 session-limit=20 3 7 924 40 4 5 6 909",
		"globex 1 - - 0 0 0 0 0 0 0 0",
		"(bad\ufffd[31m) 1 - - 1 0 0 1 0 0 0 0",
		"In parentheses: not configured, with the share and the limits of 'default'",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("ls prints\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	var all []struct {
		Name              string
		Share             float64
		Sessions, Refused int
		Unconfigured      bool
	}
	if err := json.Unmarshal([]byte(s.must("tenant ls -o json")), &all); err != nil || len(all) != 3 ||
		all[0].Share != 2 || all[0].Sessions != 3 || all[0].Refused != 924 || !all[2].Unconfigured {
		t.Errorf("%+v, %v", all, err)
	}
	s.must("tenant set acme --guaranteed stt=")
	if out := s.must("tenant show acme"); !strings.Contains(out, "mt=2") || strings.Contains(out, "stt=") {
		t.Errorf("show prints %q", out)
	}
	if out := s.must("tenant show acme"); !strings.Contains(out, "refused          924\n") {
		t.Errorf("show does not have what it uses: %q", out)
	}
	// What the list has in parentheses can be shown, too.
	s.must("tenant add default --share 0.5")
	status, out, messages := s.run("tenant", "show", "bad\x1b[31m")
	if status != 0 || !strings.Contains(out, "share          0.5\n") || !strings.Contains(out, "sessions so far  1\n") || !strings.Contains(messages, "is not configured: it has the share and the limits of the tenant 'default'") {
		t.Errorf("a tenant that is not configured: status %d, %q, %s", status, out, messages)
	}
	s.refuse(refusal{[]string{"tenant", "show", "nosuch"}, 1, "unknown tenant"})
	s.must("tenant rm acme globex --yes")
}
