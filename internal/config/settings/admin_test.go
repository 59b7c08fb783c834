package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The admin API is not open to other machines by mistake.
func TestAdminElsewhere(t *testing.T) {
	for address, elsewhere := range map[string]bool{
		"127.0.0.1:9090": false, "[::1]:9090": false, "localhost:9090": false, "127.3.2.1:0": false, "[::ffff:127.0.0.1]:1": false,
		":9090": true, "0.0.0.0:9090": true, "[::]:9090": true, "10.0.0.5:9090": true, "gpu-1:9090": true, "[fe80::1%eth0]:9090": true,
	} {
		s := Defaults()
		s.Admin = address
		err := s.Check()
		if (err != nil) != elsewhere || elsewhere && !strings.Contains(err.Error(), "can be reached from other machines: set admin-token, or admin-tls-cert and admin-tls-key, or use a loopback address such as 127.0.0.1:") {
			t.Errorf("%s: %v", address, err)
		}
		for _, set := range []func(){
			func() { s.AdminToken = "env:A" },
			func() { s.AdminReaderToken = "env:A" },
			func() { s.AdminTLSCert, s.AdminTLSKey = "/c", "/k" },
		} {
			s = Defaults()
			s.Admin = address
			if set(); s.Check() != nil {
				t.Errorf("%s: %v", address, s.Check())
			}
		}
	}
}

// A token that can be guessed is refused where other machines reach the admin API.
func TestShortTokens(t *testing.T) {
	t.Setenv("SHORT", "s3cret")
	for address, refused := range map[string]bool{"127.0.0.1:9090": false, "10.0.0.5:9090": true} {
		for _, name := range []string{"admin-token", "admin-reader-token", "fleet-token"} {
			sources, _ := given{flags: []string{"--admin", address, "--admin-tls-cert", "/c", "--admin-tls-key", "/k", "--" + name, "env:SHORT"}}.sources(t)
			_, err := sources.Load()
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "--"+name+": a token of 6 characters can be guessed") || refused && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s, %s: %v", address, name, err)
			}
		}
	}
}

// Risks returns what is allowed and unsafe.
func TestRisks(t *testing.T) {
	directory := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte("0123456789abcdef\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	private, public := file("private", 0o600), file("public", 0o644)
	t.Setenv("SHORT", "s3cret")
	writable := filepath.Join(directory, "state")
	if err := os.Mkdir(writable, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(writable, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{nil, nil},
		{[]string{"--admin", "127.0.0.1:1", "--admin-token", private}, nil},
		{[]string{"--admin", ":1", "--admin-token", private, "--admin-tls-cert", "/c", "--admin-tls-key", "/k"}, nil},
		{[]string{"--admin", ":1", "--admin-token", private}, []string{"admin: :1 can be reached from other machines, and its tokens cross the network unencrypted"}},
		{[]string{"--admin", ":1", "--admin-tls-cert", "/c", "--admin-tls-key", "/k"}, []string{"admin: :1 can be reached from other machines, and there is no admin-token"}},
		{[]string{"--admin-tls-cert", "/c", "--admin-tls-key", "/k"}, []string{"admin-tls-cert has no effect"}},
		{[]string{"--admin-token", public}, []string{"admin-token: every user of this machine can read " + strings.TrimPrefix(public, "file:")}},
		{[]string{"--admin-reader-token", "env:SHORT"}, []string{"admin-reader-token: a token of 6 characters can be guessed: use at least 16"}},
		{[]string{"--state-directory", writable}, []string{"state-directory: every user of this machine can write to " + writable}},
	} {
		risks := given{flags: append([]string{"--state-directory", directory}, c.flags...)}.load(t).Risks()
		for i := range max(len(risks), len(c.want)) {
			if i >= len(risks) || i >= len(c.want) || !strings.HasPrefix(risks[i], c.want[i]) {
				t.Errorf("%v: %q; want %q", c.flags, risks, c.want)
				break
			}
		}
		if text := strings.Join(risks, "\n"); strings.Contains(text, "s3cret") || strings.Contains(text, "0123456789abcdef") {
			t.Errorf("%v: a secret in %s", c.flags, text)
		}
	}
}
