package peers

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/fleet/presence"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// sockets has the proxies of a rig know no address of each other, but the sockets in a directory. It returns the path of a name there.
func (r *rig) sockets() (path func(name string) string) {
	directory := r.t.TempDir()
	for i, p := range r.proxies {
		r.members[i].Address, r.members[i].Process = "", p.name
		p.peers.options.Beside = func() (all []string) {
			entries, err := os.ReadDir(directory)
			if err != nil {
				r.t.Error(err)
			}
			for _, entry := range entries {
				all = append(all, "unix:"+filepath.Join(directory, entry.Name()))
			}
			return all
		}
	}
	return func(name string) string { return filepath.Join(directory, name) }
}

// listenAt has a proxy answer at a socket until the returned function is called, as /healthz does where it is asked who is there.
func (p *proxy) listenAt(path string) (end func()) {
	p.rig.t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		p.rig.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(p.serve)}
	go func() { _ = server.Serve(listener) }()
	end = func() { _ = server.Close() }
	p.rig.t.Cleanup(end)
	return end
}

// Processes of one directory find each other by their sockets, with and without a token, also when one of them moves to another socket, was killed, or
// does not answer.
func TestSocketsBeside(t *testing.T) {
	for name, token := range map[string]string{"without a token": "", "with a token": "s3cret"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a", "b")
			path := r.sockets()
			a, b := r.proxies[0], r.proxies[1]
			a.token, b.token = token, token
			a.answer(200, stats("1", 1, true))
			b.answer(200, stats("1", 2, true))
			missing := func(want string) {
				t.Helper()
				var s api.Stats
				if a.ask("GET", "/api/v1/stats?fleet=true", &s); want == "" && (len(s.Fleet.Missing) > 0 || s.Sessions.Active != 3) {
					t.Errorf("got %+v, %+v", s.Sessions, s.Fleet.Missing)
				} else if want != "" && (len(s.Fleet.Missing) != 1 || !strings.Contains(s.Fleet.Missing[0].Why, want)) {
					t.Errorf("got %+v; want %q", s.Fleet.Missing, want)
				}
			}
			missing("set --admin there, or --fleet-address")
			silent, err := net.Listen("unix", path("admin-1.sock")) // of a process that was stopped
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			end := b.listenAt(path("admin.sock"))
			missing("")
			end()
			a.listenAt(path("admin.sock")) // it has taken over
			b.listenAt(path("admin-2.sock"))
			missing("")
			missing("")
			r.members[1].Host = "there"
			missing("set --admin there, or --fleet-address")
		})
	}
}

// At a socket, another user's process gets nothing, whoever it says it is.
func TestSocketOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may listen as another user")
	}
	r := newRig(t, "a", "b")
	path := r.sockets()
	for _, directory := range []string{path(""), path("..")} {
		if err := os.Chmod(directory, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	listening := make(chan error)
	asked := make(chan struct{}, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); err != 0 {
			listening <- err
			return
		}
		listener, err := net.Listen("unix", path("admin.sock"))
		if listening <- err; err != nil {
			return
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(presence.Header, string(r.proxies[1].id))
				select {
				case asked <- struct{}{}:
				default:
				}
			}))
		}()
	}()
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	r.proxies[0].answer(200, stats("1", 1, true))
	var s api.Stats
	if r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s); len(s.Fleet.Missing) != 1 {
		t.Errorf("%+v", s.Fleet)
	}
	if _, _, err := r.proxies[0].peers.Forward(t.Context(), r.members[1].Process, new(api.ForwardedClient)); err == nil {
		t.Error("a client is forwarded")
	}
	if len(asked) > 0 {
		t.Error("something was sent")
	}
}
