package cli

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A proxy may have a name in a file, with the reference to its token.
func TestContexts(t *testing.T) {
	s := onProxy(t, admin.Access{Token: func() string { return "s3cret" }, Trusted: func(*http.Request) string { return "" }})
	s.playing(func() api.Stats { return api.Stats{} })
	file := s.write("prod: {admin: \"unix:" + s.socket + "\", admin-token: env:PROD_TOKEN}\nother: {admin: 127.0.0.1:1}\n")
	t.Setenv(settings.ContextsVariable, file)
	t.Setenv("PROD_TOKEN", "s3cret")
	t.Setenv(tokenVariable, "wrong")
	if status, _, messages := command("service", "ls", "--admin", "@prod"); status != 0 {
		t.Errorf("by flag: status %d, %s", status, messages)
	}
	t.Setenv(adminVariable, "@prod")
	if status, _, messages := command("service", "ls"); status != 0 {
		t.Errorf("by variable: status %d, %s", status, messages)
	}
	if status, _, messages := command("service", "ls", "--admin-token", "wrong"); status != 1 || !strings.Contains(messages, "wrong token") {
		t.Errorf("a token by flag wins: status %d, %s", status, messages)
	}
	for says, text := range map[string]string{
		`unknown context "prod": did you mean "prd"?`:                     "prd: {admin: 127.0.0.1:1}",
		":1:8: unknown key \"adnim\": did you mean \"admin\"?":            "prod: {adnim: 127.0.0.1:1}",
		"prod: admin is missing":                                          "prod: {}",
		"admin-token: invalid token: use env:NAME or file:/path":          "prod: {admin: 127.0.0.1:1, admin-token: s3cret}",
		"expected a mapping from names to proxies, such as prod: {admin:": "- prod",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, _, messages := command("service", "ls"); status != 2 || !strings.Contains(messages, says) || strings.Contains(messages, "s3cret") {
			t.Errorf("%s: status %d, %s; want %s", text, status, messages, says)
		}
	}
}
