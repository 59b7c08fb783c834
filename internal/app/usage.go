package app

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/usage"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
)

// keepUsage begins to keep what clients use: in the state directory, if there is one, and in the configuration's database, unless that is a file.
func (p *Proxy) keepUsage() {
	o := usage.Options{Write: file.Replace, Collect: func() { p.sessions.Usage(sampleOver, p.bookUsage) }, Log: p.log}
	if p.settings.StateDirectory != "" {
		o.Folder = state.Usage(p.settings.StateDirectory)
	}
	o.Store, _ = p.store.(usage.Store)
	p.usage = usage.New(o)
	p.scopes.SetAudioUsed(p.audioUsed)
	p.background.Go(func() { p.usage.Run(p.stopped) })
}

// audioUsed implements [limits.AudioUsed].
func (p *Proxy) audioUsed(kind limits.Kind, name string, q limits.Quota) (used time.Duration, renews time.Time) {
	of, period := usage.Of{Kind: usage.Tenant, Name: name}, usage.Day
	if kind == limits.Key {
		of.Kind = usage.Key
	}
	if q.Month {
		period = usage.Month
	}
	return p.usage.AudioUsed(of, period)
}

// bookUsage counts what a client has used. It is called from any goroutine, event loops included.
func (p *Proxy) bookUsage(u relay.Usage) {
	p.usage.Add(usage.Scope{Service: u.Service(), Tenant: u.Tenant(), Key: u.Key()}, u.Used)
}

// usageOf returns what the API says of what clients have used.
func usageOf(u *meter.Used) api.Usage {
	if u == nil {
		u = new(meter.Used)
	}
	seconds := func(micros uint64) float64 { return float64(micros) / 1e6 }
	return api.Usage{
		AudioInSeconds: seconds(u.In.Micros), AudioInEstimatedSeconds: seconds(u.In.Estimated), AudioInUnknownBytes: u.In.Unknown,
		AudioOutSeconds: seconds(u.Out.Micros), AudioOutEstimatedSeconds: seconds(u.Out.Estimated), AudioOutUnknownBytes: u.Out.Unknown,
		Results: u.Results,
	}
}

// usageStats adds what services and tenants have used.
func (p *Proxy) usageStats(to *api.Stats) {
	services, tenants := p.usage.Totals(usage.Service), p.usage.Totals(usage.Tenant)
	for i := range to.Services {
		used := services[to.Services[i].Name]
		to.Services[i].Used = usageOf(&used)
	}
	if snapshot := p.services.Snapshot(); snapshot != nil {
		for name, t := range snapshot.Tenants() {
			if q, shown := t.Limits.AudioQuota, to.Tenant(name); q.Audio > 0 && shown != nil {
				used, renews := p.audioUsed(limits.Tenant, name, q)
				shown.AudioQuota = &api.AudioQuota{
					Quota: q.String(), UsedSeconds: used.Seconds(), LeftSeconds: max(q.Audio-used, 0).Seconds(), Renews: renews,
				}
			}
		}
	}
	var others meter.Used
	for _, used := range tenants {
		others.Add(used)
	}
	for i := range to.Tenants {
		t := &to.Tenants[i]
		used := tenants[t.Name]
		if t.Used = usageOf(&used); !t.Unconfigured {
			others = others.Since(used)
		}
	}
	to.OtherTenants.Used = usageOf(&others)
}

// reportUsage answers a question about what clients have used.
func (p *Proxy) reportUsage(ctx context.Context, q api.UsageQuery) (api.UsageReport, error) {
	report := api.UsageReport{From: q.From, To: q.To, Rows: []api.UsageRow{}}
	rows, err := p.usage.Report(ctx, q.From, q.To)
	if err != nil {
		return report, &admin.Error{Status: http.StatusServiceUnavailable, Kind: api.KindState, Text: "what clients have used cannot be read now, and nothing of it is lost: " + secret.Error(err).Error()}
	}
	if problem := p.usage.Problem(); problem != nil {
		report.Problem = secret.Error(problem).Error()
	}
	sums := make(map[usage.Scope]meter.Used)
	has := func(what string) bool { return slices.Contains(q.By, what) }
	for _, r := range rows {
		s := usage.Scope{}
		if has("service") {
			s.Service = r.Service
		}
		if has("tenant") {
			s.Tenant = r.Tenant
		}
		if has("key") {
			s.Key = r.Key
		}
		used := sums[s]
		used.Add(r.Used)
		sums[s] = used
	}
	for s, used := range sums {
		row := api.UsageRow{Sessions: used.Sessions, Usage: usageOf(&used), BytesFromClients: used.In.Bytes, BytesFromBackends: used.Out.Bytes}
		if has("service") {
			row.Service = &s.Service
		}
		if has("tenant") {
			row.Tenant = &s.Tenant
		}
		if has("key") {
			row.Key = &s.Key
		}
		report.Rows = append(report.Rows, row)
	}
	slices.SortFunc(report.Rows, func(a, b api.UsageRow) int {
		return cmp.Or(compareTexts(a.Tenant, b.Tenant), compareTexts(a.Key, b.Key), compareTexts(a.Service, b.Service))
	})
	return report, nil
}

// compareTexts compares two texts of which none or both are nil.
func compareTexts(a, b *string) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Compare(*a, *b)
}
