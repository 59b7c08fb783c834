package cli

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// Limits that hit others than they are meant for, or none, have a warning.
func TestLimitWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *settings.Settings, c *config.Content, service *config.Service)
		says   string // empty for no warning
	}{
		"good": {func(*settings.Settings, *config.Content, *config.Service) {}, ""},
		"behind a load balancer on this machine": {
			func(s *settings.Settings, _ *config.Content, _ *config.Service) {
				s.Listen = []string{"127.0.0.1:8080"}
			},
			"stt: each client address has limits, but only clients of this machine can connect",
		},
		"one that is trusted": {func(s *settings.Settings, _ *config.Content, _ *config.Service) {
			s.Listen, s.TrustedProxies = []string{"127.0.0.1:8080"}, []string{"127.0.0.1"}
		}, ""},
		"no client has a tenant": {
			func(_ *settings.Settings, _ *config.Content, v *config.Service) { v.Auth = nil },
			"limits of tenants apply to no client (acme): no service authenticates its clients",
		},
		"more guaranteed than allowed": {func(_ *settings.Settings, c *config.Content, _ *config.Service) {
			tenant := c.Tenants["acme"]
			tenant.Guaranteed = map[string]string{"stt": "3", "tts": "4"}
			c.Tenants["acme"] = tenant
		}, "the tenant acme has 7 guaranteed places and a session-limit of 5"},
	} {
		s, content, service, tenant := settings.Defaults(), config.NewContent(), config.DefaultService(), config.NewTenant()
		s.Listen = []string{":8080"}
		service.Auth, service.ClientLimits.Sessions, tenant.Limits.Sessions = []string{"keys"}, 3, 5
		content.Tenants["acme"] = tenant
		c.change(&s, &content, &service)
		content.Services["stt"] = service
		got := strings.Join(limitWarnings(&s, &content), "\n")
		if c.says == "" && got != "" || !strings.Contains(got, c.says) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q; want %q", name, got, c.says)
		}
	}
}
