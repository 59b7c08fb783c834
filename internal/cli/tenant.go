package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newTenantCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "tenant",
		Short: "List and change tenants: who shares the services",
		Long: `A tenant is one of those who share the proxy: a customer, a department, an application. A client's API key, token or
certificate names its tenant. While clients wait, a service's connections go to tenants by their shares, and each
may have guaranteed places and limits. Tenants that are not configured have the share and the limits of the tenant
'default', each its own. Changes are in force at once and end no session.`,
		Example: `  wsbouncer tenant add acme --share 2 --guaranteed stt=4
  wsbouncer tenant set acme --session-limit 20 --why "new contract"
  wsbouncer tenant ls`,
	},
		newTenantListCommand(),
		newShowCommand(config.KindTenant, "  wsbouncer tenant show acme"),
		newAddCommand(config.KindTenant, `Add a tenant. NAME is what keys, tokens and certificates call it; 'default' gives the share and the limits of tenants
that are not configured.`, `  wsbouncer tenant add acme --share 2 --guaranteed stt=4
  wsbouncer tenant add default --share 0.5 --session-limit 10`),
		newSetCommand(config.KindTenant, `  wsbouncer tenant set acme --share 3
  wsbouncer tenant set acme --guaranteed stt= --dry-run   # none in this service`),
		newRemoveCommand(config.KindTenant, `Remove tenants. Their clients are served with the share and the limits of the tenant 'default' from
now on; running sessions go on.`, "  wsbouncer tenant rm acme --dry-run", ""),
	)
}

func newTenantListCommand() *cobra.Command {
	return newListCommand(config.KindTenant, `List the tenants, with their shares, guaranteed places and limits. A running proxy adds what they use: their sessions,
the clients that wait, and those that it REFUSED: TIMED OUT (they waited for queue-timeout), FULL (the queue had
no place), EVICTED (another tenant's client got their place in the full queue) and LIMITED (by the tenant's
session-limit, session-rate or audio-quota), which the wide form has one by one. It adds the tenants that have sessions
or waiting clients and are not configured, in parentheses: they have the share and the limits of the tenant 'default'.`, `  wsbouncer tenant ls
  wsbouncer tenant ls --watch --output wide
  wsbouncer tenant ls --database config.db --output json`, true, tenantRows)
}

func tenantRows(content *config.Content, now *api.Stats) *rows {
	r := &rows{heads: []string{"NAME", "SHARE", "GUARANTEED", "LIMITS"}, names: content.Names(config.KindTenant)}
	if hasServices(now) {
		wide := []string{"SESSIONS SO FAR", "TIMED OUT", "FULL", "EVICTED", "LIMITED"}
		r.heads, r.wide = append(append(r.heads, "SESSIONS", "WAITING", "REFUSED"), wide...), len(wide)
	}
	for _, name := range r.names {
		t := content.Tenants[name]
		row := []string{name, shareText(t.Share), guaranteedText(&t, now.Tenant(name)), limitsText(content.Shown(config.KindTenant, name))}
		if hasServices(now) {
			row = append(row, tenantNow(now.Tenant(name))...)
		}
		r.cells = append(r.cells, row)
	}
	if !hasServices(now) {
		return r
	}
	for i := range now.Tenants {
		if t := &now.Tenants[i]; t.Unconfigured {
			r.note = "In parentheses: not configured, with the share and the limits of 'default'"
			name := printable.Text(t.Name, 64)
			r.names = append(r.names, name)
			r.cells = append(r.cells, append([]string{"(" + name + ")", shareText(t.Share), "", ""}, tenantNow(t)...))
		}
	}
	return r
}

func shareText(share float64) string { return strconv.FormatFloat(share, 'g', -1, 64) }

// guaranteedText returns the guaranteed places: SERVICE=N, or SERVICE=KEPT of N while there is no room for all. now may be nil.
func guaranteedText(t *config.Tenant, now *api.Tenant) string {
	var all []string
	for _, service := range slices.Sorted(maps.Keys(t.Guaranteed)) {
		text := service + "=" + t.Guaranteed[service]
		if now != nil {
			for _, s := range now.Services {
				if s.Service == service && s.Kept < s.Guaranteed {
					text = fmt.Sprintf("%s=%d of %d", service, s.Kept, s.Guaranteed)
				}
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// limitsText returns the limits that are set.
func limitsText(fields config.Values) string {
	var all []string
	for _, f := range config.Fields(config.KindTenant) {
		if f.Name == "share" || f.IsMap {
			continue
		}
		if text := fields[f.Name]; text != "" && text != f.Default {
			all = append(all, f.Name+"="+text)
		}
	}
	return strings.Join(all, " ")
}

// tenantNow returns what a proxy says of a tenant, which is nil if it does not know it: then the columns of the wide form.
func tenantNow(t *api.Tenant) []string {
	if t == nil {
		t = new(api.Tenant)
	}
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return []string{
		strconv.Itoa(t.Sessions), strconv.Itoa(t.Waiting), count(t.Totals.Refused()),
		count(t.Totals.Sessions), count(t.Totals.TimedOut), count(t.Totals.Full), count(t.Totals.Evicted), count(t.Totals.Limited),
	}
}

// isUnconfigured reports whether a proxy serves clients of a tenant that the configuration does not have. now may be nil.
func isUnconfigured(content *config.Content, name string, now *api.Stats) bool {
	t := now.Tenant(name)
	return t != nil && t.Unconfigured && !content.Has(config.KindTenant, name)
}

// showUse prints what a tenant uses, if it is known.
func showUse(out io.Writer, t *api.Tenant) error {
	if t == nil {
		return nil
	}
	now, heads := tenantNow(t), []string{"sessions", "waiting", "refused", "sessions so far", "timed out", "full", "evicted", "limited"}
	var rows [][]string
	for i, head := range heads {
		rows = append(rows, []string{head, now[i]})
	}
	u := &t.Used
	rows = append(rows, []string{"audio in", audioText(u.AudioInSeconds, u.AudioInEstimatedSeconds, u.AudioInUnknownBytes)},
		[]string{"audio out", audioText(u.AudioOutSeconds, u.AudioOutEstimatedSeconds, u.AudioOutUnknownBytes)})
	if q := t.AudioQuota; q != nil {
		rows = append(rows, []string{"audio left", fmt.Sprintf("%s of %s, renews at %s", figures.Seconds(q.LeftSeconds), q.Quota, q.Renews.Format(time.RFC3339))})
	}
	fmt.Fprintln(out)
	return table(out, []string{"NOW", "VALUE"}, rows)
}

func tenantForPrograms(t *api.Tenant) map[string]any {
	return map[string]any{
		"sessions": t.Sessions, "waiting": t.Waiting, "refused": t.Totals.Refused(), "totals": t.Totals, "used": t.Used, "audio_quota": t.AudioQuota, "in_services": t.Services,
	}
}
