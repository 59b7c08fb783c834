//go:build linux

package rivals

import (
	"context"
	"embed"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/template"
)

// The configurations follow each server's documentation on WebSockets. The servers run in the foreground and write nothing outside
// Task.Dir.
//
//go:embed nginx/nginx.conf haproxy/haproxy.cfg envoy/envoy.yaml caddy/Caddyfile
var configurations embed.FS

var templates = template.Must(template.ParseFS(configurations, "*/*"))

// endpoint is an address in two parts.
type endpoint struct{ Host, Port string }

// settings are what the templates may use.
type settings struct {
	Task
	ListenHost, ListenPort string
	Servers                []endpoint // the backends
	Workers                int
	Connections            int // client connections to allow
	Sockets                int // connections of each worker to allow, on both sides, and the rest that nginx keeps free
	Descriptors            int // open files to allow
	Root                   bool
	User                   string // started by root, who must name a user for the workers
}

// configure writes a server's configuration for a task and returns the file.
func configure(t Task, config string, workers int) (string, error) {
	s := settings{Task: t, Workers: workers, Connections: t.Sessions + 100, Sockets: 3 * (t.Sessions + 100), Descriptors: descriptors(), Root: os.Geteuid() == 0}
	var err error
	if s.ListenHost, s.ListenPort, err = net.SplitHostPort(t.Listen); err != nil {
		return "", err
	}
	for _, address := range t.Backends {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		s.Servers = append(s.Servers, endpoint{host, port})
	}
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	path := filepath.Join(t.Dir, config)
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return path, templates.ExecuteTemplate(file, config, s)
}

// descriptors is how many descriptors a child may open.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Max, 65536))
}

// server returns a rival that is a program with a configuration file.
func server(name, title, config string, workers int, argv func(t Task, file string) []string) Rival {
	return Rival{Name: name, Title: fmt.Sprintf(title, workers), Command: func(t Task) ([]string, error) {
		file, err := configure(t, config, workers)
		return argv(t, file), err
	}}
}

func nginx(ctx context.Context, o Options) []Rival {
	program, err := o.debian(ctx, "nginx")
	r := server("nginx", "nginx, worker processes: %d", "nginx.conf", o.Workers["nginx"], func(_ Task, file string) []string {
		return []string{program, "-e", "stderr", "-p", filepath.Dir(file), "-c", file}
	})
	r.Serves = true
	return []Rival{r.found(ctx, err, program, "-v")}
}

func haproxy(ctx context.Context, o Options) []Rival {
	program, err := o.debian(ctx, "haproxy")
	r := server("haproxy", "HAProxy, threads: %d", "haproxy.cfg", o.Workers["haproxy"], func(_ Task, file string) []string {
		return []string{program, "-db", "-f", file}
	})
	r.Serves = true
	return []Rival{r.found(ctx, err, program, "-v")}
}

func caddy(ctx context.Context, o Options) []Rival {
	program, err := o.debian(ctx, "caddy")
	n := o.Workers["caddy"]
	r := server("caddy", "Caddy, processors: %d", "Caddyfile", n, func(t Task, file string) []string {
		return []string{
			"env", "GOMAXPROCS=" + strconv.Itoa(n), "HOME=" + t.Dir, "XDG_DATA_HOME=" + t.Dir, "XDG_CONFIG_HOME=" + t.Dir,
			program, "run", "--config", file, "--adapter", "caddyfile",
		}
	})
	r.Serves = true
	return []Rival{r.found(ctx, err, program, "version")}
}

// envoy comes from a Python package, which carries the binary.
func envoy(ctx context.Context, o Options) []Rival {
	program, n := Find("envoy"), strconv.Itoa(o.Workers["envoy"])
	var err error
	if program == "" {
		var dir string
		dir, err = o.environment(ctx, "envoy", filepath.Join(o.Root, "bench/rivals/envoy/requirements.txt"))
		program = filepath.Join(dir, "bin", "envoy")
	}
	r := server("envoy", "Envoy, worker threads: %d", "envoy.yaml", o.Workers["envoy"], func(_ Task, file string) []string {
		return []string{program, "-c", file, "--concurrency", n, "--disable-hot-restart", "--log-level", "error"}
	})
	r.Serves = true
	return []Rival{r.found(ctx, err, program, "--version")}
}

var number = regexp.MustCompile(`\d+\.\d+(\.\d+)?\S*`)

// found adds the version that the program prints to the rival, or the reason why there is none.
func (r Rival) found(ctx context.Context, err error, program string, ask ...string) Rival {
	if err == nil {
		r.Version, err = version(ctx, program, ask...)
	}
	if err != nil {
		r.Missing = err.Error()
	}
	if found := number.FindString(r.Version); found != "" {
		r.Version, _, _ = strings.Cut(found, "/")
	}
	return r
}
