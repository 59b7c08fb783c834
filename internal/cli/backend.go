package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newBackendCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "backend",
		Short: "List, change, drain and enable inference servers (backends)",
		Long: `A backend is one inference server, with a hard connection cap. It belongs to a service.
Changes are in force at once and end no session.`,
		Example: `  wsbouncer backend add gpu-2 ws://10.0.0.6:2700 --service stt --connections 32
  wsbouncer backend set gpu-2 --connections 48
  wsbouncer backend drain gpu-2 --wait --timeout 10m
  wsbouncer backend ls`,
	},
		newBackendListCommand(),
		newShowCommand(config.KindBackend, "  wsbouncer backend show gpu-2"),
		newBackendAddCommand(),
		newSetCommand(config.KindBackend, `  wsbouncer backend set gpu-2 --connections 48 --label zone=a
  wsbouncer backend set gpu-2 --warm cap --dry-run`),
		newRemoveCommand(config.KindBackend, `Remove backends. They get no more clients, and the proxy closes their idle connections. Running sessions
go on until they end.`, "  wsbouncer backend rm gpu-2 --why \"returned to the pool\"", ""),
		newBackendStateCommand(draining),
		newBackendStateCommand(enabling),
		newBackendStateCommand(disabling),
		newBackendRecycleCommand(),
	)
}

func newBackendAddCommand() *cobra.Command {
	var write writeFlags
	var fields *fieldFlags
	cmd := &cobra.Command{
		Use:   "add NAME URL --connections N",
		Short: "Add a backend",
		Long: `Add a backend. It gets clients as soon as it has connections. --connections is the most connections that the server may
ever see at once, from all proxies that share the configuration.

You may omit --service while only one service exists.`,
		Example: `  wsbouncer backend add gpu-2 ws://10.0.0.6:2700 --service stt --connections 32
  wsbouncer backend add gpu-3 wss://gpu-3.example.org/asr --connections 16 --header "Authorization=Bearer env:STT_TOKEN" --label zone=a`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usageError(fmt.Errorf("%s takes a name and a URL such as ws://10.0.0.5:2700, but got %d arguments", cmd.CommandPath(), len(args)))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				if fields.values["url"] != "" {
					return usageError(errors.New("the URL is given twice: use either the argument or --url"))
				}
				fields.fromArgument("url", "URL", args[1])
			}
			if fields.values["connections"] == "" {
				return usageError(errors.New("--connections: the value is missing: use the most connections that the server may ever see at once"))
			}
			if err := fields.check(); err != nil {
				return err
			}
			return write.run(cmd, false, func(now *config.Content) (config.Change, error) {
				if err := ownService(now, fields.values); err != nil {
					return config.Change{}, err
				}
				return adding(config.KindBackend, args[0], fields.values)(now)
			})
		},
	}
	fields = addFieldFlags(cmd, config.KindBackend)
	write.add(cmd)
	return cmd
}

// ownService gives a backend that names no service the only one there is.
func ownService(now *config.Content, values config.Values) error {
	if now == nil || values["service"] != "" {
		return nil
	}
	services := now.Names(config.KindService)
	switch len(services) {
	case 0:
		return errors.New("no service exists for the backend: add one with 'wsbouncer service add NAME'")
	case 1:
		values["service"] = services[0]
		return nil
	}
	return usageError(fmt.Errorf("--service: the value is missing: use %s", spelling.OneOf(services)))
}

func newBackendListCommand() *cobra.Command {
	var chosen selection
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the backends",
		Long: `List the backends. A running proxy adds their idle connections, those leased to sessions, and their health.
LAG (--output wide) is the largest lag of its sessions, as 'wsbouncer session ls' shows it.
If proxies share servers, GRANTED is how many of a server's places they have together, and GRANT, with --local, how many this proxy has.
An eighth is in reserve: 14/16 means that any proxy gets one of the other two when a client needs it.

With --sort scale-in, it lists the servers that it uses, the one to empty first first: one that gets no sessions anyway, one that
does not work, and then the one with the least to wait for: few sessions, and short ones. LEFT is how long the sessions of all
proxies on it are expected to last on, added up, and EMPTY IN how long the longest of them is.`,
		Example: `  wsbouncer backend ls
  wsbouncer backend ls --sort scale-in --service stt
  wsbouncer backend ls --watch --output wide
  wsbouncer backend ls --selector zone=a --output json`,
	}
	chosen.add(cmd)
	cmd.Flags().StringVar(&chosen.service, "service", "", "only backends of this service")
	completeFlag(cmd, "service", config.KindService)
	order := api.BackendsByName
	cmd.Flags().StringVar(&order, "sort", order, "order: "+spelling.OneOf(api.BackendOrders)+"; scale-in needs a running proxy")
	completeWords(cmd, "sort", api.BackendOrders)
	listing(cmd, true, func(t *target, content *config.Content, messages io.Writer) (*rows, []json.RawMessage, error) {
		names, err := chosen.of(content)
		switch {
		case err != nil:
			return nil, nil, err
		case !slices.Contains(api.BackendOrders, order):
			return nil, nil, usageError(fmt.Errorf("--sort: %w", spelling.Unknown("order", order, api.BackendOrders)))
		case order == api.BackendsScaleIn:
			return t.scaleIn(cmd.Context(), names)
		}
		now := t.running(cmd.Context(), messages)
		return backendRows(content, names, now), forPrograms(content, config.KindBackend, names, now), nil
	})
	return cmd
}

// selection chooses backends by their labels and service.
type selection struct {
	labels  []string
	service string
}

func (s *selection) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&s.labels, "selector", "l", nil, "only backends with this label: NAME=VALUE, or NAME for any value (repeat to require several)")
}

// of returns the names of the backends that are chosen.
func (s *selection) of(content *config.Content) (chosen []string, err error) {
	if s.service != "" {
		if err := known(content, config.KindService, s.service); err != nil {
			return nil, err
		}
	}
	for _, label := range s.labels {
		if name, _, _ := strings.Cut(label, "="); name == "" {
			return nil, usageError(fmt.Errorf("--selector: invalid label %q: use NAME=VALUE or NAME", label))
		}
	}
	for _, name := range content.Names(config.KindBackend) {
		b := content.Backends[name]
		fits := s.service == "" || b.Service == s.service
		for _, label := range s.labels {
			key, want, isExact := strings.Cut(label, "=")
			has, ok := b.Labels[key]
			fits = fits && ok && (!isExact || has == want)
		}
		if fits {
			chosen = append(chosen, name)
		}
	}
	return chosen, nil
}

func backendRows(content *config.Content, names []string, now *api.Stats) *rows {
	r := &rows{heads: []string{"NAME", "SERVICE", "URL", "CAP", "WARM", "WEIGHT", "STATE"}, names: names}
	part, shares := false, false
	if now != nil {
		part, shares = showsPart(now.Fleet), now.Fleet.Shares()
	}
	if hasBackends(now) {
		r.heads = append(r.heads, "IDLE", "LEASED", "HEALTH")
	}
	if part {
		r.heads = append(r.heads, "GRANT")
	}
	if shares {
		r.heads = append(r.heads, "GRANTED")
	}
	hasLabels := slices.ContainsFunc(names, func(name string) bool { return len(content.Backends[name].Labels) > 0 })
	if hasLabels {
		r.heads = append(r.heads, "LABELS")
	}
	if hasBackends(now) {
		wide := []string{"DIALING", "RESETTING", "RETIRING", "CEILING", "PING", "BROKEN", "SINCE", "REASON", "LAG", "STALLS", "MOVED", "CANARY"}
		r.heads, r.wide = append(r.heads, wide...), len(wide)
	}
	for _, name := range names {
		value := func(field string) string { return content.Value(config.KindBackend, name, field) }
		shown := content.Shown(config.KindBackend, name)
		row := []string{name, value("service"), shown["url"], value("connections"), value("warm"), value("weight"), value("state")}
		add := func(row []string, b *api.Backend) {
			var wide []string
			if hasBackends(now) {
				cells, more := backendCells(b)
				if d := now.Lookup(row[0]); d != nil && b == nil {
					cells[2] = serversOf(d)
				}
				row, wide = append(row, cells...), more
			}
			var grant, granted string
			if b != nil && b.Places != nil {
				grant, granted = strconv.Itoa(b.Places.Grant), fmt.Sprintf("%d/%d", b.Places.Granted, b.Places.Cap)
			}
			if part {
				row = append(row, grant)
			}
			if shares {
				row = append(row, granted)
			}
			if hasLabels {
				row = append(row, pairs(shown["labels"]))
			}
			r.cells = append(r.cells, append(row, wide...))
		}
		add(row, now.Backend(name))
		if now.Lookup(name) == nil {
			continue
		}
		for _, b := range now.BackendsOf(name) {
			if b.DiscoveredFrom != "" {
				add([]string{"  " + b.Name, b.Service, "", strconv.Itoa(b.Cap), strconv.Itoa(b.Warm), strconv.FormatFloat(b.Weight, 'g', 4, 64), b.State}, b)
			}
		}
	}
	return r
}

// backendCells returns the cells of a running backend, and those of wide tables; empty ones if it does not run.
func backendCells(b *api.Backend) (cells, wide []string) {
	if b == nil {
		return make([]string, 3), make([]string, 12)
	}
	c := b.Condition
	ping := ""
	if b.RoundTripSeconds > 0 {
		ping = figures.Seconds(b.RoundTripSeconds)
	}
	return []string{strconv.Itoa(b.Idle), strconv.Itoa(b.Leased), c.Word}, []string{
		strconv.Itoa(b.Dialing), strconv.Itoa(b.Resetting), strconv.Itoa(b.Retiring), strconv.Itoa(b.Ceiling), ping,
		strconv.FormatUint(b.Broken, 10), clock(c.Since), c.Why,
		measuredSeconds(b.LagSeconds), countOf(int(b.Stalls)), countOf(int(b.Moved)), canaryOf(b),
	}
}

// showsPart reports whether numbers are those of one proxy that may use a part of each server's places only.
func showsPart(f *api.Fleet) bool {
	return f.Shares() && !f.Whole || f != nil && f.Mode == api.FleetWaiting
}

// clock returns a time as tables show it; empty if it is not set.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
