package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newProxyCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "proxy",
		Short: "List the proxies of a fleet, and forget a dead one",
		Long: `Proxies that share a database are a fleet: they share servers' places, so that all of them together never have more
connections to a server than its cap. The ledger in the database says how many places of each server each proxy has.`,
		Example: `  wsbouncer proxy ls
  wsbouncer proxy show proxy-b
  wsbouncer proxy forget proxy-b --why "its host burnt down"`,
	}, newProxyListCommand(), newProxyShowCommand(), newProxyForgetCommand())
}

func newProxyListCommand() *cobra.Command {
	var from proxyFlags
	var form listFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the proxies that share servers' places",
		Long: `List the proxies that share servers' places, this one (*) included. SEEN is how long ago each reached the ledger last,
unseen in STATE that this was more than 3 s ago, and PLACES how many connections to servers it may have. The proxy asks
each of the others for its state; with --local, it shows only what the ledger has.`,
		Example: `  wsbouncer proxy ls
  wsbouncer proxy ls --watch
  wsbouncer proxy ls --output json | jq '.proxies[] | select(.reachable | not)'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.use(func(proxy *client.Client) error {
				return form.run(cmd, func(messages io.Writer) (*rows, error) {
					var f api.Fleet
					if err := proxy.Get(cmd.Context(), api.ProxiesPath, nil, &f); err != nil {
						return nil, err
					}
					if !form.forPrograms() {
						sayFleet(messages, &f)
					}
					return proxyRows(&f), nil
				})
			})
		},
	}
	from.add(cmd)
	from.addLocal(cmd)
	cmd.Flags().Lookup("local").Usage = "only what the ledger says: do not ask the other proxies"
	form.add(cmd)
	return cmd
}

// sayFleet says what is particular about a fleet.
func sayFleet(messages io.Writer, f *api.Fleet) {
	switch f.Mode {
	case api.FleetOff:
		fmt.Fprintln(messages, "This proxy shares no caps with others: it has no database and no state directory, or fleet is off.")
	case api.FleetWhole:
		fmt.Fprintln(messages, "Caps are not shared: this proxy uses the whole caps, whatever others do.")
	case api.FleetWaiting:
		fmt.Fprintln(messages, "The ledger has not answered yet: this proxy has no places.")
	}
	if f.Problem != "" {
		text := f.Problem
		if f.Advice != "" {
			text += "; " + f.Advice
		}
		fmt.Fprintf(messages, "The ledger has not been reached for %s: %s\n", figures.Seconds(f.SinceSeconds), text)
	}
	if f.Frozen {
		fmt.Fprintf(messages, "Frozen for %s: %s\n", figures.Seconds(f.FrozenSeconds), f.FrozenWhy)
	}
}

func proxyRows(f *api.Fleet) *rows {
	wide := []string{"HOST", "ADDRESS"}
	r := &rows{
		heads: append([]string{"NAME", "ID", "STATE", "SEEN", "UP", "SESSIONS", "PLACES", "CONFIGURATION", "VERSION", "PROBLEM"}, wide...),
		wide:  len(wide), all: f,
	}
	for i := range f.Proxies {
		p := &f.Proxies[i]
		name := p.Name
		if p.Self {
			name += " *"
		}
		r.cells = append(r.cells, []string{
			name, p.ID, p.State, seen(p, "now"), figures.Seconds(p.AgeSeconds), strconv.Itoa(p.Sessions), strconv.Itoa(p.Places), p.Configuration, p.Version,
			p.Problem, p.Host, p.Address,
		})
		r.names = append(r.names, p.Name)
	}
	return r
}

// seen says how long ago a proxy reached the ledger last, in the given word if that is less than a second: none does so more often.
func seen(p *api.Proxy, now string) string {
	if p.Self || p.SeenSeconds < 1 {
		return now
	}
	return figures.Seconds(p.SeenSeconds) + " ago"
}

func newProxyShowCommand() *cobra.Command {
	var from proxyFlags
	var form output
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show what is known about a proxy, and its places",
		Long:              "Show a proxy, and how many places of each server it has. NAME is its name, its id, or the beginning of its id. The proxy asks each\nof the others for its state; with --local, it shows only what the ledger says, whose number of sessions may be some seconds old.",
		Example:           "  wsbouncer proxy show proxy-b",
		ValidArgsFunction: completeProxies,
		Args:              oneProxy,
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.use(func(proxy *client.Client) error {
				p, err := oneOf(cmd.Context(), proxy, args[0])
				if err != nil {
					return err
				}
				var f api.Fleet
				if err := proxy.Get(cmd.Context(), api.ProxiesPath, nil, &f); err != nil {
					return err
				}
				for i := range f.Proxies { // what the proxy itself says is newer than what the ledger has
					if now := &f.Proxies[i]; now.ID == p.ID {
						p.State, p.Sessions, p.Configuration = now.State, now.Sessions, now.Configuration
						p.Reachable, p.Problem = now.Reachable, now.Problem
					}
				}
				if form.forPrograms() {
					return form.print(cmd.OutOrStdout(), p)
				}
				return showProxy(cmd.OutOrStdout(), p)
			})
		},
	}
	from.add(cmd)
	from.addLocal(cmd)
	cmd.Flags().Lookup("local").Usage = "only what the ledger says: do not ask the other proxies"
	form.add(cmd, "table", asJSON, asYAML)
	return cmd
}

// oneProxy checks the arguments of a command about one proxy.
func oneProxy(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || isNoID(args[0]) {
		return usageError(fmt.Errorf("%s takes the name or id of one proxy, but got %s: 'wsbouncer proxy ls' lists them", cmd.CommandPath(), quoted(args)))
	}
	return nil
}

// oneOf returns a proxy by its name or id.
func oneOf(ctx context.Context, from *client.Client, name string) (*api.Proxy, error) {
	p := new(api.Proxy)
	if err := from.Get(ctx, api.ProxiesPath+"/"+url.PathEscape(name), nil, p); err != nil {
		return nil, err
	}
	return p, nil
}

func showProxy(out io.Writer, p *api.Proxy) error {
	cells := [][]string{{"name", p.Name}, {"id", p.ID}, {"state", p.State}, {"seen", seen(p, "now")}, {"up", figures.Seconds(p.AgeSeconds)}}
	for _, c := range [][]string{
		{"problem", p.Problem},
		{"address", p.Address},
		{"host", p.Host},
		{"version", p.Version},
		{"configuration", p.Configuration},
	} {
		if c[1] != "" {
			cells = append(cells, c)
		}
	}
	cells = append(cells, []string{"sessions", strconv.Itoa(p.Sessions)}, []string{"places", strconv.Itoa(p.Places)})
	if err := table(out, []string{"FIELD", "VALUE"}, cells); err != nil || len(p.Grants) == 0 {
		return err
	}
	cells = nil
	for _, g := range p.Grants {
		cells = append(cells, []string{g.Server, strconv.Itoa(g.Places), strconv.Itoa(g.Needs), strconv.Itoa(g.Wants)})
	}
	fmt.Fprintln(out)
	return table(out, []string{"SERVER", "PLACES", "NEEDS", "WANTS"}, cells)
}

func newProxyForgetCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Declare a proxy dead, so that others get its places",
		Long: `Declare a proxy dead: others get its places. Places of a proxy that is no longer seen stay its own until it is proven
dead, since it may still have connections that the caps of servers count. Forget it only when you know that it no longer
runs, such as when its host is gone.

If it runs nevertheless, servers may see more connections than their caps, up to as many as it has places. It learns that it
was forgotten as soon as it reaches the ledger, and gives up what others have got meanwhile.

The command asks before it does so. A proxy that was seen within the last 3 s runs: then it needs --force.`,
		Example: `  wsbouncer proxy forget proxy-b --why "its host is gone"
  wsbouncer proxy forget 5d0e8a7c41b2f963 --yes`,
		ValidArgsFunction: completeProxies,
		Args:              oneProxy,
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.use(func(proxy *client.Client) error {
				p, err := oneOf(cmd.Context(), proxy, args[0])
				if err != nil {
					return err
				}
				const recently = 3 // seconds
				if !p.Self && p.SeenSeconds < recently && !force {
					return fmt.Errorf("%s was seen %s, so it runs: end it first, or use --force", p.Name, seen(p, "just now"))
				}
				if !p.Self { // the proxy itself says why that is not possible
					if err := confirm(cmd, yes, forgetting(p)); err != nil {
						return err
					}
				}
				query := url.Values{}
				if force {
					query.Set("force", "true")
				}
				return order.do(cmd, proxy, http.MethodPost, api.ProxiesPath+"/"+url.PathEscape(p.ID)+"/forget", query)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&force, "force", false, "forget it although it was seen within the last seconds")
	order.add(cmd)
	from.add(cmd)
	return cmd
}

// forgetting says what it means to forget a proxy.
func forgetting(p *api.Proxy) string {
	held := "holds no places"
	if p.Places > 0 {
		held = fmt.Sprintf("holds %s; if it still runs, servers may see up to %s more than their caps",
			figures.Plural(p.Places, "place"), figures.Plural(p.Places, "connection"))
	}
	return fmt.Sprintf("forget %s (%s, seen %s), which %s", p.Name, p.ID, seen(p, "just now"), held)
}

// completeProxies has shells complete the names of proxies.
var completeProxies = completeRunning(false, func(ctx context.Context, proxy *client.Client) (names []string) {
	var f api.Fleet
	_ = proxy.Get(ctx, api.ProxiesPath, nil, &f)
	for i := range f.Proxies {
		names = append(names, f.Proxies[i].Name)
	}
	return names
})
