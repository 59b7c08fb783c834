package cli

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

func newServiceCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "service",
		Short: "List and change services: what clients can request",
		Long: `A service is what clients request by path and host: a profile, a queue, limits, and the backends that
belong to it. Changes are in force at once and end no session.`,
		Example: `  wsbouncer service add stt --path /v1/stt --profile vosk
  wsbouncer service set stt --queue-timeout 20s --why "long weekend"
  wsbouncer service ls`,
	},
		newServiceListCommand(),
		newShowCommand(config.KindService, "  wsbouncer service show stt"),
		newAddCommand(config.KindService, "Add a service. Its clients wait until it has a backend ('wsbouncer backend add').", `  wsbouncer service add stt --path /v1/stt --profile vosk
  wsbouncer service add mt --path /v1/mt --host mt.example.org --queue 100`),
		newSetCommand(config.KindService, `  wsbouncer service set stt --queue 200 --queue-timeout 20s
  wsbouncer service set stt --queue "" --dry-run   # back to the default`),
		newRemoveCommand(config.KindService, `Remove services. New clients get 404; running sessions go on.

To remove a service that still has backends, use --with-backends, which removes them too.`,
			"  wsbouncer service rm stt --with-backends --dry-run", config.KindBackend),
		newServicePauseCommand(),
		newServiceResumeCommand(),
	)
}

func newServiceListCommand() *cobra.Command {
	return newListCommand(config.KindService, `List the services. A running proxy adds the number of clients that wait, and in the wide form those that got no
connection: TIMED OUT (none came free in time), LEFT (they gave up), FULL (the queue had no place) and EVICTED
(another tenant's client got their place in the full queue). REFUSED of 'tenant ls' is all of these but LEFT.`, `  wsbouncer service ls
  wsbouncer service ls --watch --output wide
  wsbouncer service ls --database config.db --output json`, true, serviceRows)
}

func serviceRows(content *config.Content, now *api.Stats) *rows {
	r := &rows{heads: []string{"NAME", "PATH", "HOST", "PROFILE", "BALANCE", "QUEUE", "BACKENDS", "CAP"}, names: content.Names(config.KindService)}
	if hasServices(now) {
		wide := []string{"LONGEST", "UTILISATION", "QUEUED", "TIMED OUT", "LEFT", "FULL", "EVICTED"}
		r.heads, r.wide = append(append(r.heads, "STATE", "WAITING"), wide...), len(wide)
	}
	for _, name := range r.names {
		s := content.Services[name]
		backends, connections := 0, 0
		for _, b := range content.Backends {
			if b.Service == name {
				backends++
				connections += b.Cap()
			}
		}
		row := []string{
			name, cmp.Or(s.Path, "(any)"), cmp.Or(s.Host, "(any)"), s.Profile, s.Balance, strconv.Itoa(s.Queue), strconv.Itoa(backends), strconv.Itoa(connections),
		}
		if hasServices(now) {
			state, cells := "", make([]string, 1+r.wide)
			if s := now.Service(name); s != nil {
				state, cells = serviceNow(s)
			}
			row = append(append(row, state), cells...)
		}
		r.cells = append(r.cells, row)
	}
	return r
}

// serviceNow returns what a proxy says about a service: its state, the clients that wait, and the columns of the wide form.
func serviceNow(s *api.Service) (state string, cells []string) {
	longest := ""
	if s.Queue.Waiting > 0 {
		longest = figures.Seconds(s.Queue.OldestSeconds)
	}
	used := fmt.Sprintf("%.0f%%", 100*s.Utilisation)
	if s.Condition.Word == diagnosis.ServiceDownWord {
		used = "" // of nothing that takes sessions
	}
	q := &s.Queue.Totals
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return s.Condition.Word, []string{
		strconv.Itoa(s.Queue.Waiting), longest, used, count(q.Queued), count(q.TimedOut), count(q.Left), count(q.Full), count(q.Evicted),
	}
}
