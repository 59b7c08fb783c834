//go:build linux

package packages_test

// checkInstalled checks what both kinds of packages install.
func (s *scratch) checkInstalled() {
	s.t.Helper()
	s.expectPart("wsbouncer v", "wsbouncer --version")
	s.expect("/var/lib/wsbouncer:/usr/sbin/nologin", "getent passwd wsbouncer | cut -d: -f6-")
	s.expect("0", "getent passwd wsbouncer | cut -d: -f3 | grep -c '^0$' || true") // it is not root
	s.expect("640 root wsbouncer", "stat -c '%a %U %G' /etc/wsbouncer/wsbouncer.yaml")
	s.run("wsbouncer config init --file - | cmp - /etc/wsbouncer/wsbouncer.yaml")
	s.expectPart("which does not exist yet", "mkdir -p /tmp/state && chown wsbouncer /tmp/state && cd / && runuser -u wsbouncer -- wsbouncer check --settings /etc/wsbouncer/wsbouncer.yaml --state-directory /tmp/state")
	s.run("systemd-analyze verify --man=no wsbouncer.service")
	s.run("gzip -cd /usr/share/man/man1/wsbouncer-serve.1.gz | grep -q drain-timeout")
	s.run("bash -n /usr/share/bash-completion/completions/wsbouncer")
	s.run("logrotate --debug /etc/logrotate.d/wsbouncer || ! command -v logrotate")
}
