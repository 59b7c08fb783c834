//go:build linux

package packages_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// rpmNames are rpm's names of architectures.
var rpmNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// older is the specification of a package of an older version, with another settings file.
const older = `Name: wsbouncer
Version: 0.0.0
Release: 1
Summary: An older version
License: Apache-2.0
BuildArch: noarch
%description
An older version.
%install
mkdir -p %{buildroot}/etc/wsbouncer
echo '# an older default' >%{buildroot}/etc/wsbouncer/wsbouncer.yaml
%files
%config(noreplace) /etc/wsbouncer/wsbouncer.yaml
`

// TestRPM installs the RPM package, installs it again over an older version, and removes it.
func TestRPM(t *testing.T) {
	file := built(t, "wsbouncer-*.ARCH.rpm", rpmNames)
	need(t, "rpm", "rpmbuild")
	s := newScratch(t, filepath.Dir(file))
	file = "/packages/" + filepath.Base(file)
	s.recordSystemctl()
	// A database of its own, in which nothing is installed; Debian's rpm asks for --force-debian.
	rpm := "rpm --dbpath /var/lib/scratch-rpm --nodeps"
	if s.run("cat /etc/debian_version 2>/dev/null || true") != "" {
		rpm += " --force-debian"
	}

	s.run(rpm + " --install " + file)
	s.checkInstalled()
	s.expect("daemon-reload", "cat /systemctl.log") // neither enabled nor started
	s.expect("", rpm+" --verify wsbouncer")
	s.run(`sed -i 's/^#drain-timeout: .*/drain-timeout: 5m/' /etc/wsbouncer/wsbouncer.yaml
mkdir -p /var/lib/wsbouncer
echo data >/var/lib/wsbouncer/wsbouncer.db`)
	s.called()

	s.run(rpm + " --erase wsbouncer")
	if calls := s.called(); !strings.Contains(calls, "disable --now wsbouncer.socket wsbouncer.service") {
		t.Errorf("removing the package did not stop the proxy:\n%s", calls)
	}
	s.expectGone("/usr/bin/wsbouncer", "/usr/lib/systemd/system/wsbouncer.service", "/etc/wsbouncer/wsbouncer.yaml")
	s.expect("drain-timeout: 5m", "grep ^drain-timeout /etc/wsbouncer/wsbouncer.yaml.rpmsave")
	s.expect("data", "cat /var/lib/wsbouncer/wsbouncer.db")

	// An upgrade keeps a file that was edited, and leaves the proxy running.
	s.run("cat >/tmp/older.spec <<'END'\n" + older + "END\nrpmbuild --define '_topdir /tmp/build' -bb /tmp/older.spec")
	s.run(rpm + " --install /tmp/build/RPMS/noarch/wsbouncer-0.0.0-1.noarch.rpm")
	s.run("echo 'drain-timeout: 7m' >/etc/wsbouncer/wsbouncer.yaml")
	s.called()
	s.expectPart("keeps running until 'wsbouncer upgrade'", rpm+" --upgrade "+file)
	s.expect("drain-timeout: 7m", "cat /etc/wsbouncer/wsbouncer.yaml")
	s.run("wsbouncer config init --file - | cmp - /etc/wsbouncer/wsbouncer.yaml.rpmnew")
	if calls := s.called(); strings.Contains(calls, "stop") || strings.Contains(calls, "restart") || strings.Contains(calls, "disable") {
		t.Errorf("an upgrade ended the running proxy:\n%s", calls)
	}
	// The scripts of this version, too, leave the proxy running when they are those of the old version of an upgrade.
	s.run(rpm + " --upgrade --replacepkgs " + file)
	if calls := s.called(); strings.Contains(calls, "stop") || strings.Contains(calls, "restart") || strings.Contains(calls, "disable") {
		t.Errorf("installing the same version again ended the running proxy:\n%s", calls)
	}
}
