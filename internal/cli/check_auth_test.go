package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// Each unsafe combination has its warning, and a safe one has none.
func TestAuthWarnings(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		change func(s *settings.Settings, c *config.Content, service *config.Service)
		says   string // empty for no warning
	}{
		{"safe", func(*settings.Settings, *config.Content, *config.Service) {}, ""},
		{"loopback without TLS", func(s *settings.Settings, _ *config.Content, _ *config.Service) {
			s.Listen = []string{"127.0.0.1:8080", "[::1]:8080", "localhost:8080"}
		}, ""},
		{
			"plain listener", func(s *settings.Settings, _ *config.Content, _ *config.Service) {
				s.Listen = []string{"127.0.0.1:80", ":8080"}
			},
			"clients of stt send their credentials unencrypted to :8080: use tls-listen",
		},
		{"plain listener, certificates only", func(s *settings.Settings, _ *config.Content, v *config.Service) {
			s.Listen, v.Auth, s.TLSClientAuth, v.AllowOrigin = []string{":8080"}, []string{"certificate"}, []string{"optional"}, []string{"*"}
		}, ""},
		{
			"no authentication", func(_ *settings.Settings, _ *config.Content, v *config.Service) { v.Auth = []string{"none"} },
			"any client that reaches 0.0.0.0:443 may use stt: set auth",
		},
		{"no authentication, but certificates", func(s *settings.Settings, _ *config.Content, v *config.Service) {
			v.Auth, s.TLSClientAuth, v.AllowOrigin = nil, []string{"0.0.0.0:443=required"}, []string{"*"}
		}, ""},
		{
			"no authentication, but certificates, also of browsers", func(s *settings.Settings, _ *config.Content, v *config.Service) {
				v.Auth, s.TLSClientCA = nil, []string{"ca.pem"}
			},
			"the service stt takes client certificates, which browsers send for the pages of any site",
		},
		{
			"no key", func(_ *settings.Settings, c *config.Content, _ *config.Service) { clear(c.Keys) },
			"accepts clients with an API key only, and no key is good for it",
		},
		{
			"in the query", func(_ *settings.Settings, _ *config.Content, v *config.Service) {
				v.AuthFrom = []string{"header", "query:key"}
			},
			"the service stt takes credentials from the query (auth-from query:key)",
		},
		{
			"passed", func(_ *settings.Settings, _ *config.Content, v *config.Service) {
				v.Pass = []string{"query", "header:Authorization"}
			},
			"the service stt passes its clients' credentials to its backends: pass has header:authorization",
		},
		{
			"no limit on guesses", func(s *settings.Settings, _ *config.Content, _ *config.Service) { s.FailedAuthRate = limits.Rate{} },
			"failed-auth-rate is 0",
		},
		{"expired key", func(_ *settings.Settings, c *config.Content, _ *config.Service) {
			c.Keys["old"] = config.Key{Expires: now}
		}, "API keys that have expired: old"},
		{"key of no service", func(_ *settings.Settings, c *config.Content, _ *config.Service) {
			for _, name := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7"} {
				c.Keys[name] = config.Key{Services: []string{"sst"}}
			}
		}, "API keys for the service sst, which does not exist: k1, k2, k3, k4, k5 and 2 more"},
		{"key of an unknown tenant", func(_ *settings.Settings, c *config.Content, _ *config.Service) {
			c.Tenants["acme"], c.Keys["phone"] = config.NewTenant(), config.Key{Tenant: "acmee"}
		}, "API keys of tenants that are not configured, and so have no limits of a tenant: phone"},
		{"tenants have a default", func(_ *settings.Settings, c *config.Content, _ *config.Service) {
			c.Tenants["acme"], c.Tenants["default"], c.Keys["phone"] = config.NewTenant(), config.NewTenant(), config.Key{Tenant: "other"}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, content, service := settings.Defaults(), config.NewContent(), config.DefaultService()
			s.Listen, s.TLSListen, service.Auth = nil, []string{"0.0.0.0:443"}, []string{"keys"}
			content.Keys["phone"] = config.Key{Tenant: "acme"}
			c.change(&s, &content, &service)
			content.Services["stt"] = service
			warnings := authWarnings(&s, &content, now)
			if got := strings.Join(warnings, "\n"); c.says == "" && got != "" || !strings.Contains(got, c.says) || len(warnings) > 1 {
				t.Errorf("it warns\n%s\nwant %q", got, c.says)
			}
		})
	}
}
