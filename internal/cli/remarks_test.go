package cli

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Taking out the last enabled backend of a service draws a remark, and is done all the same.
func TestLastEnabledBackend(t *testing.T) {
	const leaves = "Warning: the service stt has no enabled backend left: new clients wait in its queue until you enable one, or time out"
	t.Run("database", func(t *testing.T) {
		s := onDatabase(t).begin()
		for _, step := range []struct{ command, says string }{
			{"backend drain gpu-1", ""},
			{"backend disable gpu-2 --dry-run", leaves + "\n"},
			{"backend disable gpu-2", leaves + "\n"},
			{"backend disable gpu-1", ""}, // it had none before
			{"backend enable --selector zone", ""},
			{"backend drain -l zone -o json", leaves + "\n"},
			{"backend enable gpu-2", ""},
			{"backend set gpu-2 --state draining", leaves + "\n"},
			{"backend enable gpu-2", ""},
			{"backend rm gpu-2 --yes", leaves + "\n"},
			{"backend enable gpu-1", ""},
			{"service set stt --queue 0", ""},
			{"backend drain gpu-1", "Warning: the service stt has no enabled backend left: new clients are refused\n"},
			{"service rm stt --with-backends --yes", ""}, // it is gone itself
		} {
			status, out, messages := s.run(strings.Fields(step.command)...)
			if status != 0 || out == "" || messages != step.says {
				t.Errorf("%s: status %d, printed %q, said %q; want %q", step.command, status, out, messages, step.says)
			}
		}
	})
	t.Run("proxy", func(t *testing.T) {
		s := onProxy(t, open).begin()
		for _, c := range []struct {
			leased int
			says   string
		}{{6, "; 7 sessions continue\n"}, {0, "; 1 session continues\n"}, {-1, "; it has no sessions\n"}} {
			s.must("backend enable gpu-1 gpu-2")
			s.playing(func() api.Stats {
				return api.Stats{Backends: []api.Backend{{Name: "gpu-1", Pool: api.Pool{Leased: 1 + c.leased}}, {Name: "gpu-2"}, {Name: "other", Pool: api.Pool{Leased: 9}}}}
			})
			if _, _, messages := s.run("backend", "drain", "gpu-1", "gpu-2"); messages != leaves+c.says {
				t.Errorf("it said %q; want %q", messages, leaves+c.says)
			}
		}
		s.must("backend enable gpu-1 gpu-2")
		s.playing(nil) // the proxy does not say
		if status, _, messages := s.run("backend", "drain", "gpu-1", "gpu-2"); status != 0 || messages != leaves+"\n" {
			t.Errorf("without statistics: status %d, said %q", status, messages)
		}
	})
}

// A change that ends with the process is told from one that stays.
func TestForgottenByRestart(t *testing.T) {
	s := onProxy(t, open).begin()
	source := ""
	s.playing(func() api.Stats { return api.Stats{Configuration: api.Configuration{Source: source}} })
	for _, c := range []struct{ source, says string }{
		{app.SourceFlags, "Note: this proxy is configured by its flags: a restart forgets the change\n"},
		{stores.Memory, "Note: this proxy keeps its configuration in memory: a restart forgets the change\n"},
		{"/var/lib/wsbouncer/wsbouncer.db", ""},
		{"", ""}, // of an older version
	} {
		source = c.source
		for _, step := range []struct{ command, says string }{
			{"backend set gpu-1 --weight 2", c.says},
			{"backend set gpu-1 --weight 2", ""}, // nothing to change
			{"backend set gpu-1 --weight 3 --dry-run", ""},
			{"backend set gpu-1 --weight 1 --output json", c.says},
			{"backend set gpu-1 --weight 1.5 --database " + s.database, ""}, // both flags: straight to the database
			{"backend ls", ""},
		} {
			status, _, messages := s.run(strings.Fields(step.command)...)
			if status != 0 || messages != step.says {
				t.Errorf("%q, %s: status %d, said %q; want %q", c.source, step.command, status, messages, step.says)
			}
		}
	}
}
