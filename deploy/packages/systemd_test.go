//go:build linux

package packages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// boot makes a scratch root in $1, with the directory $2 as /packages, and runs systemd there as the first process of the namespaces that
// unshare made. $3 is a control group of its own, where the system still has the old ones.
const boot = mountScratch + `
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
if [ -n "$3" ]; then
	echo $$ >"$3/cgroup.procs"
	mount -t tmpfs tmpfs sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd
	mount --bind "$3" sys/fs/cgroup/systemd
else
	mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
# Nothing starts but what a test starts.
rm -rf etc/systemd/system/*.wants etc/systemd/system/default.target
ln -s /lib/systemd/system/basic.target etc/systemd/system/default.target
echo ready
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd
`

// newMachine returns a scratch root in which systemd runs, with a network of its own.
func newMachine(t *testing.T, packages string) *scratch {
	t.Helper()
	need(t, "unshare", "nsenter", "chroot", "systemctl")
	group := ""
	if _, err := os.Stat("/sys/fs/cgroup/systemd"); err == nil {
		group = filepath.Join("/sys/fs/cgroup/systemd", fmt.Sprintf("wsbouncer-test-%d", os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Skipf("no control group can be made here: %v", err)
		}
		t.Cleanup(func() {
			// The processes in it have been killed, but may take a moment to go.
			_ = exec.Command("sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10; do
	find "$1" -depth -type d -exec rmdir {} \;
	[ -d "$1" ] || exit 0
	sleep 0.2
done`, "sh", group).Run()
		})
	}
	top := t.TempDir()
	holder := exec.Command("unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup",
		"sh", "-c", boot, "sh", top, packages, group)
	lines := startWith(t, holder)
	t.Cleanup(func() {
		_ = holder.Process.Kill() // and so systemd, and so all that it started
		_ = holder.Wait()
	})
	var said []string
	for line := range lines {
		if line == "ready" {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", holder.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			s := &scratch{t: t, enter: []string{"nsenter", "--target", strings.TrimSpace(string(children)), "--pid", "--mount", "--uts", "--ipc", "--net", "chroot", filepath.Join(top, "root")}}
			if state, _ := s.try("until systemctl is-system-running 2>/dev/null | grep -e running -e degraded; do sleep 0.1; done"); state == "" {
				t.Skip("systemd does not come up here within two minutes")
			}
			return s
		}
		said = append(said, line)
	}
	t.Skipf("systemd does not start here: %s", strings.Join(said, "; "))
	return nil
}

// property returns a property of the unit.
func (s *scratch) property(name string) string {
	s.t.Helper()
	return s.run("systemctl show --property " + name + " --value wsbouncer")
}

// TestUnit runs the packages' unit under systemd: readiness, privileges, reload, a missing user, an upgrade, removal.
func TestUnit(t *testing.T) {
	deb := built(t, "wsbouncer_*_ARCH.deb", debNames)
	need(t, "dpkg")
	s := newMachine(t, filepath.Dir(deb))
	s.run("dpkg --install /packages/" + filepath.Base(deb))
	if active, _ := s.try("systemctl is-active wsbouncer"); active != "inactive" {
		t.Errorf("the package left its service %s, not inactive", active)
	}
	s.run(`printf 'listen: ["127.0.0.1:80"]\ndrain-timeout: 1s\n' >/etc/wsbouncer/wsbouncer.yaml`)

	// It starts, as its user, on a port of the system's, behind its filter of system calls; io_uring is not filtered.
	s.run("systemctl enable --now wsbouncer")
	s.expectPart("There is no service yet.", "wsbouncer status") // which waits for nothing: the unit is active when the proxy is ready
	status := s.run("cat /proc/" + s.property("MainPID") + "/status")
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000400", "CapBnd:\t0000000000000400"} {
		if !strings.Contains(status, line+"\n") {
			t.Errorf("the process has no line %q in\n%s", line, status)
		}
	}
	if strings.Contains(status, "Uid:\t0") {
		t.Errorf("the proxy runs as root")
	}
	s.expect("750 wsbouncer", "stat -c '%a %U' /var/lib/wsbouncer")
	s.expect("750 wsbouncer", "stat -c '%a %U' /var/log/wsbouncer")
	// Where the kernel has no io_uring at all, this fails at once and says so.
	without, _ := s.try("timeout 5 wsbouncer serve --io-uring on --settings '' --listen 127.0.0.1:0 --backend ws://127.0.0.1:1")
	if log := s.run("journalctl --unit wsbouncer --output cat"); strings.Contains(log, "without io_uring") && !strings.Contains(without, "io_uring_setup") {
		t.Errorf("the unit keeps io_uring from the proxy:\n%s", log)
	}

	// A reload changes settings in the same process.
	before := s.property("MainPID")
	s.run("sed -i 's/^drain-timeout: .*/drain-timeout: 2s/' /etc/wsbouncer/wsbouncer.yaml && systemctl reload wsbouncer")
	s.run("wsbouncer service add stt && wsbouncer backend add one ws://127.0.0.1:1 --service stt --connections 100")
	if after := s.property("MainPID"); after != before {
		t.Errorf("a reload made process %s of %s", after, before)
	}

	// An upgrade does not touch the process; a restart does.
	s.expectPart("keeps running", "dpkg --install /packages/"+filepath.Base(deb))
	if after := s.property("MainPID"); after != before {
		t.Errorf("an upgrade made process %s of %s", after, before)
	}
	s.run("systemctl restart wsbouncer")
	s.expectPart("one", "wsbouncer backend ls") // the state is still there
	s.run("systemctl stop wsbouncer")
	if result := s.property("Result"); result != "success" {
		t.Errorf("the proxy stopped with the result %q", result)
	}

	s.upgradeUnit()

	// A drain without a limit outlasts TimeoutStopSec=, since the proxy asks systemd for more time, and it cuts no session: not that of the old process of an
	// upgrade either, which systemd sends SIGTERM twice.
	s.run(`mkdir -p /run/systemd/system/wsbouncer.service.d
printf '[Service]\nTimeoutStopSec=8s\n' >/run/systemd/system/wsbouncer.service.d/test.conf
sed -i 's/^drain-timeout: .*/drain-timeout: none/' /etc/wsbouncer/wsbouncer.yaml
systemctl daemon-reload && systemctl start wsbouncer
wsbouncer backend add two ws://127.0.0.1:2701 --service stt --connections 100`)
	for _, before := range []string{"true", "timeout 60 wsbouncer upgrade"} {
		s.expectPart("closed       2 with 1000", `exec 2>&1
systemctl start wsbouncer
wsbouncer sim --listen 127.0.0.1:2701 --quiet >/tmp/sim & sim=$!
wsbouncer bench ws://127.0.0.1:80/ --connections 2 --rate 5 --text --duration 24s >/tmp/bench & bench=$!
until [ "$(wsbouncer session ls --state relaying | grep -c ' stt ')" = 2 ]; do sleep 0.1; done
`+before+` >/tmp/before
systemctl stop wsbouncer
wait $bench
kill $sim
cat /tmp/bench`)
		if result := s.property("Result"); result != "success" {
			t.Errorf("the proxy ended its drain with the result %q", result)
		}
	}

	// Without io_uring, the proxy runs all the same.
	s.run(`mkdir -p /run/systemd/system/wsbouncer.service.d
printf '[Service]\nSystemCallFilter=~io_uring_setup\n' >/run/systemd/system/wsbouncer.service.d/test.conf
systemctl daemon-reload && systemctl start wsbouncer`)
	s.expectPart("sending without io_uring", "journalctl --unit wsbouncer --output cat")
	s.run("systemctl stop wsbouncer")

	// Without its user the unit fails, and says so; the file for sysusers mends it.
	s.run("userdel wsbouncer")
	if output, err := s.try("systemctl start wsbouncer"); err == nil {
		t.Errorf("the unit started without its user:\n%s", output)
	}
	s.expectPart("217", "systemctl show --property ExecMainStatus wsbouncer")
	s.run("systemctl stop wsbouncer; systemd-sysusers && chown -R wsbouncer:wsbouncer /var/lib/wsbouncer && systemctl start wsbouncer")

	// Clients that come while the package is removed do not start the proxy again.
	s.useSocket()
	s.run(`bash -c 'while sleep 0.05; do : </dev/tcp/127.0.0.1/80; done' >/dev/null 2>&1 &`)
	s.run("dpkg --purge wsbouncer")
	if state, _ := s.try("systemctl is-active wsbouncer.socket"); state == "active" {
		t.Errorf("systemd still accepts the proxy's clients after the purge")
	}
	s.expectGone("/proc/"+before, "/var/lib/wsbouncer", "/etc/systemd/system/multi-user.target.wants/wsbouncer.service",
		"/etc/systemd/system/sockets.target.wants/wsbouncer.socket")
	if output, _ := s.try("pgrep -x wsbouncer"); output != "" {
		t.Errorf("the proxy still runs after the purge: process %s", output)
	}
}

// upgradeUnit has the running proxy start its successor, which becomes the unit's main process: systemd sees it end, and restarts it. It
// does so with and without a socket unit.
func (s *scratch) upgradeUnit() {
	s.t.Helper()
	const settle = `until [ "$(systemctl show --property MainPID --value wsbouncer)" != %s ] && systemctl is-active --quiet wsbouncer; do sleep 0.1; done`
	s.run("systemctl start wsbouncer")
	for _, sockets := range []bool{false, true} {
		if sockets {
			s.useSocket()
		}
		first := s.property("MainPID")
		s.expectPart("Upgraded: process", "timeout 60 wsbouncer upgrade")
		s.run(fmt.Sprintf(settle, first))
		second := s.property("MainPID")
		s.expectGone("/proc/" + first)
		s.expectPart("one", "wsbouncer backend ls")
		s.expect("0", "systemctl show --property NRestarts --value wsbouncer")
		s.run("kill -KILL " + second)
		s.run(fmt.Sprintf(settle, second))
		s.expect("1", "systemctl show --property NRestarts --value wsbouncer")
		s.run("systemctl stop wsbouncer; systemctl reset-failed wsbouncer; systemctl start wsbouncer")
	}
	s.run("systemctl stop wsbouncer.socket wsbouncer; systemctl disable wsbouncer.socket; rm -r /run/systemd/system/wsbouncer.socket.d; systemctl daemon-reload")
}

// useSocket has systemd open the address of the settings, as docs/systemd.md says.
func (s *scratch) useSocket() {
	s.t.Helper()
	s.run(`mkdir -p /run/systemd/system/wsbouncer.socket.d
printf '[Socket]\nListenStream=\nListenStream=127.0.0.1:80\n' >/run/systemd/system/wsbouncer.socket.d/test.conf
systemctl daemon-reload && systemctl stop wsbouncer && systemctl enable --now wsbouncer.socket && systemctl start wsbouncer || { journalctl --unit wsbouncer --output cat | tail -20; exit 1; }`)
}
