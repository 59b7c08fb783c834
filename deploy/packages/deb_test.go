//go:build linux

package packages_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// debNames are Debian's names of architectures.
var debNames = map[string]string{"amd64": "amd64", "arm64": "arm64"}

// TestDeb installs the Debian package, upgrades it to a newer version with another settings file, removes and purges it.
func TestDeb(t *testing.T) {
	deb := built(t, "wsbouncer_*_ARCH.deb", debNames)
	need(t, "dpkg", "dpkg-deb")
	s := newScratch(t, filepath.Dir(deb))
	deb = "/packages/" + filepath.Base(deb)
	s.recordSystemctl()

	s.run("dpkg --install " + deb)
	s.checkInstalled()
	s.expect("daemon-reload", "cat /systemctl.log") // neither enabled nor started
	s.called()
	files := strings.Fields(s.run("dpkg --listfiles wsbouncer"))
	for _, file := range []string{"/usr/share/doc/wsbouncer/copyright", "/etc/needrestart/conf.d/wsbouncer.conf"} {
		if !slices.Contains(files, file) {
			t.Errorf("the package has no %s", file)
		}
	}
	// As needrestart reads it, and finds out whether to restart a unit.
	s.expect("0", `perl -e 'my %nrconf = (override_rc => {});
eval do { local(@ARGV, $/) = q(/etc/needrestart/conf.d/wsbouncer.conf); <> };
die $@ if $@;
print map { q(wsbouncer.service) =~ /$_/ ? $nrconf{override_rc}{$_} : () } keys %{$nrconf{override_rc}}'`)

	// What an administrator and the proxy leave.
	s.run(`sed -i 's/^#drain-timeout: .*/drain-timeout: 5m/' /etc/wsbouncer/wsbouncer.yaml
chmod 600 /etc/wsbouncer/wsbouncer.yaml
echo key >/etc/wsbouncer/tls.key
mkdir -p /var/lib/wsbouncer /var/log/wsbouncer
echo data >/var/lib/wsbouncer/wsbouncer.db`)

	s.run(`dpkg-deb --raw-extract ` + deb + ` /tmp/newer
sed -i 's/^Version: .*/Version: 99.0/' /tmp/newer/DEBIAN/control
echo '# a newer default' >>/tmp/newer/etc/wsbouncer/wsbouncer.yaml
dpkg-deb -Znone --build /tmp/newer /tmp/newer.deb`)
	s.expectPart("keeps running until 'wsbouncer upgrade'", "dpkg --force-confold --install /tmp/newer.deb")
	s.expect("99.0", "dpkg-query --show --showformat '${Version}' wsbouncer")
	s.expect("drain-timeout: 5m", "grep ^drain-timeout /etc/wsbouncer/wsbouncer.yaml")
	s.expect("600", "stat -c %a /etc/wsbouncer/wsbouncer.yaml")
	s.run("grep 'a newer default' /etc/wsbouncer/wsbouncer.yaml.dpkg-dist")
	if calls := s.called(); strings.Contains(calls, "stop") || strings.Contains(calls, "restart") || strings.Contains(calls, "disable") {
		t.Errorf("an upgrade ended the running proxy:\n%s", calls)
	}

	s.run("dpkg --remove wsbouncer")
	if calls := s.called(); !strings.Contains(calls, "disable --now wsbouncer.socket wsbouncer.service") {
		t.Errorf("removing the package did not stop the proxy:\n%s", calls)
	}
	s.expectGone("/usr/bin/wsbouncer", "/usr/lib/systemd/system/wsbouncer.service", "/usr/lib/sysusers.d/wsbouncer.conf", "/usr/share/man/man1/wsbouncer*")
	s.expect("drain-timeout: 5m", "grep ^drain-timeout /etc/wsbouncer/wsbouncer.yaml")
	s.expect("data", "cat /var/lib/wsbouncer/wsbouncer.db")

	// Units that were enabled and that no systemd has disabled, as in a chroot.
	const enabled = "/etc/systemd/system/multi-user.target.wants/wsbouncer.service /etc/systemd/system/sockets.target.wants/wsbouncer.socket"
	s.run("for link in " + enabled + "; do mkdir -p ${link%/*} && ln -sf /usr/lib/systemd/system/${link##*/} $link; done")
	s.run("dpkg --purge wsbouncer")
	s.expectGone("/etc/wsbouncer/wsbouncer.yaml", "/etc/logrotate.d/wsbouncer", "/etc/needrestart/conf.d/wsbouncer.conf", "/var/lib/wsbouncer", "/var/log/wsbouncer")
	s.expectGone(strings.Fields(enabled)...)
	s.expect("key", "cat /etc/wsbouncer/tls.key") // which the package did not make
	s.run("getent passwd wsbouncer")              // so that no other user gets its number
}

// TestDebWithoutSysusers installs the package where there is no systemd-sysusers.
func TestDebWithoutSysusers(t *testing.T) {
	deb := built(t, "wsbouncer_*_ARCH.deb", debNames)
	need(t, "dpkg")
	s := newScratch(t, filepath.Dir(deb))
	s.run("rm -f /usr/bin/systemd-sysusers /bin/systemd-sysusers")
	s.run("dpkg --install /packages/" + filepath.Base(deb))
	s.expect("wsbouncer proxy:/var/lib/wsbouncer:/usr/sbin/nologin", "getent passwd wsbouncer | cut -d: -f5-")
	s.expect("640 root wsbouncer", "stat -c '%a %U %G' /etc/wsbouncer/wsbouncer.yaml")
	s.run("dpkg --purge wsbouncer")
	s.expectGone("/etc/wsbouncer", "/usr/bin/wsbouncer")
}

// TestDebFields reads the fields that package managers show.
func TestDebFields(t *testing.T) {
	deb := built(t, "wsbouncer_*_ARCH.deb", debNames)
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb")
	}
	for field, want := range map[string]string{"Package": "wsbouncer", "Architecture": debNames[runtime.GOARCH], "Section": "net"} {
		got, err := exec.Command("dpkg-deb", "--field", deb, field).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, not %q", field, got, want)
		}
	}
}
