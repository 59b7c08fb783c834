package settings

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// Tokens are the tokens that AdminToken, AdminReaderToken and FleetToken refer to: secrets. An empty one is none.
type Tokens struct {
	Token       string // of operators
	ReaderToken string
	PeerToken   string // for other proxies' admin APIs; empty for Token, see ForFleet
}

// ForFleet returns the token by which the proxy proves to other proxies who it is; empty for none.
func (t *Tokens) ForFleet() string { return cmp.Or(t.PeerToken, t.Token) }

// tokens returns the tokens that the settings refer to.
func (l *loading) tokens() (all Tokens) {
	for _, row := range l.rows {
		reference := row.value.Text()
		if row.token == nil || reference == "" {
			continue
		}
		secret, err := secret.Resolve(reference)
		if err == nil {
			err = checkToken(reference, secret)
		}
		if err == nil && l.settings.guessable(secret) {
			err = shortToken(secret)
		}
		if err != nil {
			l.bad("%s%w", l.heads[row.name], err)
		}
		*row.token(&all) = secret
	}
	if all.Token != "" && all.Token == all.ReaderToken {
		l.bad("%sit is the same token as admin-token: readers would be operators; give them another one", l.heads["admin-reader-token"])
	}
	return all
}

// checkAdmin checks that strangers cannot use the admin API.
func (l *loading) checkAdmin() {
	s := &l.settings
	switch {
	case s.AdminTLSCert != "" && s.AdminTLSKey == "":
		l.bad("%sadmin-tls-key is missing: name the file of the certificate's private key", l.heads["admin-tls-cert"])
	case s.AdminTLSKey != "" && s.AdminTLSCert == "":
		l.bad("%sadmin-tls-cert is missing: name the file of the key's certificate", l.heads["admin-tls-key"])
	}
	if s.adminElsewhere() && s.AdminToken == "" && s.AdminReaderToken == "" && s.AdminTLSCert == "" {
		l.bad("%s%q can be reached from other machines: set admin-token, or admin-tls-cert and admin-tls-key, or use a loopback address such as %s",
			l.heads["admin"], s.Admin, loopback(s.Admin))
	}
}

// adminElsewhere reports whether other machines may reach the admin API's address.
func (s *Settings) adminElsewhere() bool {
	host, _, err := net.SplitHostPort(s.Admin)
	if err != nil || strings.EqualFold(host, "localhost") {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err != nil || !address.Unmap().IsLoopback()
}

// loopback returns the address with the same port that only this machine reaches.
func loopback(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort("127.0.0.1", port)
}

// goodToken is how many characters a token should have at least: 16 letters and digits at random have 95 bits.
const goodToken = 16

// guessable reports whether other machines may try a token that is too short for that.
func (s *Settings) guessable(token string) bool {
	return token != "" && len(token) < goodToken && s.adminElsewhere()
}

func shortToken(token string) error {
	return fmt.Errorf("a token of %d characters can be guessed: use at least %d, such as the output of `openssl rand -hex 32`", len(token), goodToken)
}

// Risks returns what is allowed and unsafe, a line each, for an operator who asks (`wsbouncer check`). It looks at the files that the
// settings name.
func (l *Loaded) Risks() (risks []string) {
	add := func(format string, args ...any) { risks = append(risks, fmt.Sprintf(format, args...)) }
	elsewhere, hasToken := l.adminElsewhere(), l.Token != "" || l.ReaderToken != ""
	switch {
	case elsewhere && hasToken && l.AdminTLSCert == "":
		add("admin: %s can be reached from other machines, and its tokens cross the network unencrypted: set admin-tls-cert and admin-tls-key", l.Admin)
	case l.AdminTLSCert != "" && l.Admin == "":
		add("admin-tls-cert has no effect: there is no admin address, and the admin socket needs no TLS")
	case elsewhere && !hasToken:
		add("admin: %s can be reached from other machines, and there is no admin-token: from there, only /healthz, /readyz and /metrics can be read", l.Admin)
	}
	for _, row := range rows(&l.Settings) {
		if row.token == nil {
			continue
		}
		if secret := *row.token(&l.Tokens); secret != "" && len(secret) < goodToken {
			add("%s: %v", row.name, shortToken(secret))
		}
		if path, ok := strings.CutPrefix(row.value.Text(), "file:"); ok && readableByAll(path) {
			add("%s: every user of this machine can read %s: remove that right (chmod o-r %[2]s)", row.name, path)
		}
	}
	if info, err := os.Stat(l.Directory()); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		add("state-directory: every user of this machine can write to %s, and so change the configuration: remove that right (chmod o-w %[1]s)", l.Directory())
	}
	return risks
}

// readableByAll reports whether every user of this machine may read a file. It does not look at the directories on the way.
func readableByAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
