package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

func TestMethodWarnings(t *testing.T) {
	directory := t.TempDir()
	file := func(name string, content []byte, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return "file:" + path
	}
	document := tokentest.KeySet(tokentest.NewSigner(t, "a", "ES256").JWK())
	good, open, broken := file("good.json", document, 0o644), file("open.json", document, 0o666), file("broken.json", []byte("{}"), 0o644)
	for name, c := range map[string]struct {
		change func(s *settings.Settings, v *config.Service)
		says   []string // none for no warning
	}{
		"safe":           {func(*settings.Settings, *config.Service) {}, nil},
		"any audience":   {func(_ *settings.Settings, v *config.Service) { v.JWTAudience = nil }, []string{"issued for other applications"}},
		"any issuer":     {func(_ *settings.Settings, v *config.Service) { v.JWTIssuer = "" }, []string{"tokens of any issuer"}},
		"much leeway":    {func(_ *settings.Settings, v *config.Service) { v.JWTLeeway = time.Hour }, []string{"for 1h0m0s after they have expired"}},
		"no key set":     {func(_ *settings.Settings, v *config.Service) { v.JWTKeys = good + ".missing" }, []string{"cannot verify tokens", "no such file"}},
		"broken key set": {func(_ *settings.Settings, v *config.Service) { v.JWTKeys = broken }, []string{"cannot verify tokens", "no usable key"}},
		"open key set":   {func(_ *settings.Settings, v *config.Service) { v.JWTKeys = open }, []string{"which users other than its owner can change (mode 0666)"}},
		"unused key set": {func(_ *settings.Settings, v *config.Service) { v.Auth = []string{"keys"} }, []string{"has jwt-keys, but auth lacks jwt"}},
		"unused server":  {func(_ *settings.Settings, v *config.Service) { v.AuthURL = "http://127.0.0.1/" }, []string{"has auth-url, but auth lacks external"}},
		"server, this one": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.AuthURL = []string{"jwt", "external"}, "http://127.0.0.1/"
		}, nil},
		"server over TLS": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.AuthURL = []string{"jwt", "external"}, "https://id/"
		}, nil},
		"server elsewhere": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.AuthURL = []string{"jwt", "external"}, "http://10.0.0.5/?key=s3cret"
		}, []string{"unencrypted to auth-url 10.0.0.5"}},
		"lets in": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.AuthURL, v.AuthFailure = []string{"jwt", "external"}, "https://id/", "allow"
		}, []string{"lets everybody in while"}},
		"remembers": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.AuthURL, v.AuthCache = []string{"jwt", "external"}, "https://id/", time.Hour
		}, []string{"changed its mind"}},
		"no listener asks for certificates": {func(_ *settings.Settings, v *config.Service) { v.Auth = []string{"jwt", "certificate"} }, []string{"no listener asks for one"}},
		"certificates": {func(s *settings.Settings, v *config.Service) {
			v.Auth, s.TLSClientAuth = []string{"jwt", "certificate"}, []string{":443=required"}
		}, nil},
		"tells the tenant": {func(_ *settings.Settings, v *config.Service) { v.SetHeader = map[string]string{"X-Tenant": "{tenant}"} }, nil},
		"tells no key":     {func(_ *settings.Settings, v *config.Service) { v.SetQuery = map[string]string{"k": "{tenant}{key}"} }, []string{"never sends k of set-query", "{key}"}},
		"tells no client": {func(_ *settings.Settings, v *config.Service) {
			v.Auth, v.JWTKeys, v.SetHeader = nil, "", map[string]string{"X-Tenant": "{tenant}", "X-Client": "{client}"}
		}, []string{"never sends X-Tenant of set-header"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := settings.Defaults(), config.DefaultService()
			s.TLSListen = []string{":443"}
			v.Auth, v.JWTKeys, v.JWTIssuer, v.JWTAudience = []string{"jwt"}, good, "https://id.example.org", []string{"speech"}
			c.change(&s, &v)
			warnings := methodWarnings(&s, "stt", &v)
			text := strings.Join(warnings, "\n")
			if len(warnings) > 1 || (len(c.says) == 0) != (text == "") || strings.Contains(text, "s3cret") {
				t.Errorf("it warns\n%s\nwant %q", text, c.says)
			}
			for _, says := range c.says {
				if !strings.Contains(text, says) || !strings.HasPrefix(text, "the service stt ") {
					t.Errorf("it warns\n%s\nwant %q", text, says)
				}
			}
		})
	}
}
