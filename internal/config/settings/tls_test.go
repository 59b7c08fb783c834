package settings

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Each listener has its own values, or those that are for all.
func TestSecured(t *testing.T) {
	l := given{file: `
tls-listen: [":443", "[::1]:8443", "127.0.0.1:9443"]
tls-cert: [a.pem, "127.0.0.1:9443=/tls/b=c.pem", d.pem]
tls-key: [a-key.pem, b-key.pem, d-key.pem]
tls-client-ca: ["[::1]:8443=ca.pem", "127.0.0.1:9443=one.pem", "127.0.0.1:9443=two.pem"]
tls-client-auth: ["127.0.0.1:9443=optional"]
tls-min-version: ["1.3", ":443=1.2"]
`}.load(t)
	general := []secure.KeyPair{{Certificate: "a.pem", Key: "a-key.pem"}, {Certificate: "d.pem", Key: "d-key.pem"}}
	want := []secure.ListenerSettings{
		{Certificates: general, MinVersion: tls.VersionTLS12},
		{Certificates: general, MinVersion: tls.VersionTLS13, ClientCA: []string{"ca.pem"}, ClientAuth: secure.RequiredClientCertificate},
		{
			Certificates: []secure.KeyPair{{Certificate: "/tls/b=c.pem", Key: "b-key.pem"}}, MinVersion: tls.VersionTLS13,
			ClientCA: []string{"one.pem", "two.pem"}, ClientAuth: secure.OptionalClientCertificate,
		},
	}
	if got := l.Secured(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if len(l.Listen) != 0 {
		t.Errorf("there are listeners without TLS that were not asked for: %q", l.Listen)
	}
	l = given{flags: []string{"--listen", "127.0.0.1:8080", "--tls-listen", ":443", "--tls-cert", "a.pem", "--tls-key", "a-key.pem"}}.load(t)
	if len(l.Listen) != 1 || len(l.Warnings) != 0 {
		t.Errorf("%q, %q", l.Listen, l.Warnings)
	}
}

func TestTLSErrors(t *testing.T) {
	pair := []string{"--tls-cert", "a.pem", "--tls-key", "k.pem"}
	listening := append([]string{"--tls-listen", ":443"}, pair...)
	for want, flags := range map[string][]string{
		`--tls-listen: :443: no certificate for this listener: set tls-cert and tls-key, or tls-auto`:                                             {"--tls-listen", ":443"},
		`--tls-key: files of tls-cert: 1, files of tls-key: 2: give each certificate its key, in the same order`:                                  append(listening, "--tls-key", "more.pem"),
		`--tls-cert: files of tls-cert: 1, files of tls-key: 0: give each certificate its key, in the same order`:                                 listening[:4],
		`--tls-listen: listen already uses ":443": a listener speaks TLS, or does not`:                                                            append(listening, "--listen", ":443"),
		`--admin: tls-listen already uses "127.0.0.1:443": give the admin API another address`:                                                    append([]string{"--tls-listen", "127.0.0.1:443", "--admin", "127.0.0.1:443"}, pair...),
		`--tls-cert: unknown listener ":444": did you mean ":443"?`:                                                                               {"--tls-listen", ":443", "--tls-cert", ":444=a.pem", "--tls-key", "k.pem"},
		`--tls-key: ":443=k.pem" is where the key of "a.pem" belongs, which is for another listener: put keys in the order of their certificates`: {"--tls-listen", ":443", "--tls-cert", "a.pem", "--tls-key", ":443=k.pem"},
		`--tls-client-auth: unknown use of clients' certificates "require": did you mean "required"? Use one of off, optional, required`:          append(listening, "--tls-client-auth", "require"),
		`--tls-client-auth: given twice: write ADDRESS= before all but one, to say which listener it is for`:                                      append(listening, "--tls-client-auth", "off", "--tls-client-auth", "optional"),
		`--tls-min-version: given twice for the listener :443`:                                                                                    append(listening, "--tls-min-version", ":443=1.2", "--tls-min-version", ":443=1.3"),
		`--tls-min-version: invalid version of TLS "1.1": use 1.2 or 1.3`:                                                                         append(listening, "--tls-min-version", "1.1"),
		`--tls-listen: :443: tls-client-auth needs tls-client-ca: name the authorities that sign clients' certificates`:                           append(listening, "--tls-client-auth", "optional"),
		`--tls-client-ca: invalid path ""`: append(listening, "--tls-client-ca", ":443="),
	} {
		if got := strings.Join((given{flags: flags}).errors(t), "\n"); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", flags, got, want)
		}
	}
	for want, flags := range map[string][]string{
		`--tls-cert: no effect, because no listener speaks TLS: set tls-listen, such as :8443`: {"--tls-cert", "a.pem"},
		`--tls-client-auth: :443: tls-client-ca has no effect, because tls-client-auth is off`: append(listening, "--tls-client-ca", "ca.pem", "--tls-client-auth", "off"),
	} {
		if l := (given{flags: flags}).load(t); len(l.Warnings) != 1 || l.Warnings[0] != want {
			t.Errorf("%q: %q; want %q", flags, l.Warnings, want)
		}
	}
}
