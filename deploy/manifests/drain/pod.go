package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// pod is a proxy that runs with the arguments of the manifest, but at addresses of this machine.
type pod struct {
	// static
	name    string
	url     string
	address string // of url
	admin   *kit.Admin
	api     string // URL of the admin API
	process *kit.Process
	output  *kit.Output
	ready   string // path of the readiness probe
	args    []string
}

// What the proxy logs, as JSON, when it is ready for connections.
var (
	listening      = regexp.MustCompile(`"msg":"listening","address":"([^"]+)"`)
	adminListening = regexp.MustCompile(`"msg":"admin API","address":"(http:[^"]+)"`)
)

// adminToken stands in for the Secret that the Deployment names.
const adminToken = "of-the-drain-of-pods"

// startPod starts a proxy and waits until its readiness probe succeeds. Folder is for its state. The caller stops the process.
func startPod(ctx context.Context, program, name string, e ending, configuration, folder string) (*pod, error) {
	args := e.args
	for name, value := range map[string]string{
		"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "database": configuration, "state-directory": filepath.Join(folder, name), "log-format": "json",
	} {
		args = withArgument(args, name, value)
	}
	output := new(kit.Output)
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=", "WSBOUNCER_ADMIN_TOKEN="+adminToken)
	command.Stderr = output
	process, err := kit.Start(name, command)
	if err != nil {
		return nil, err
	}
	p := &pod{name: name, process: process, output: output, ready: e.ready}
	if err := p.awaitReady(ctx); err != nil {
		process.Kill()
		return nil, fmt.Errorf("%s: %w; its log:\n%s", name, err, strings.Join(output.Lines(), "\n"))
	}
	return p, nil
}

func (p *pod) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	clients, err := p.process.Await(ctx, p.output, listening)
	if err != nil {
		return err
	}
	admin, err := p.process.Await(ctx, p.output, adminListening)
	if err != nil {
		return err
	}
	p.url, p.api, p.admin = "ws://"+clients, admin, kit.NewAdmin(admin)
	p.admin.Token = adminToken
	return p.process.Until(ctx, "the readiness probe succeeds", func() (bool, error) { return p.isReady(ctx), nil })
}

// isReady carries out the readiness probe.
func (p *pod) isReady(ctx context.Context) bool {
	err := p.admin.Get(ctx, p.ready, nil)
	return err == nil
}

// endpoints are the pods that a Kubernetes Service sends new clients to. Any goroutine may call its methods.
type endpoints struct {
	mu   sync.Mutex
	pods []*pod // guarded by mu
}

// choose returns one of the pods.
func (e *endpoints) choose() *pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[rand.IntN(len(e.pods))]
}

func (e *endpoints) remove(gone *pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods = slices.DeleteFunc(e.pods, func(p *pod) bool { return p == gone })
}

// localConfiguration returns the path of a copy of the configuration in which simulated servers stand for the members of its only backend,
// each with the backend's own settings, and the path that clients request.
func localConfiguration(original, folder string, servers []string) (path, request string, err error) {
	text, err := os.ReadFile(original)
	if err != nil {
		return "", "", err
	}
	var c struct {
		Services map[string]map[string]any `json:"services"`
		Backends map[string]map[string]any `json:"backends"`
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return "", "", fmt.Errorf("%s: %w", original, err)
	}
	if len(c.Services) != 1 || len(c.Backends) != 1 {
		return "", "", fmt.Errorf("%s: %d services and %d backends: this program runs one of each", original, len(c.Services), len(c.Backends))
	}
	for _, service := range c.Services {
		request, _ = service["path"].(string) // empty for any
	}
	for name, backend := range c.Backends {
		delete(c.Backends, name)
		delete(backend, "discover")
		delete(backend, "discover-interval")
		for i, url := range servers {
			member := maps.Clone(backend)
			member["url"] = url
			c.Backends[fmt.Sprintf("%s-%d", name, i+1)] = member
		}
		break
	}
	made, err := yaml.Marshal(c)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(folder, "configuration.yaml")
	return path, request, os.WriteFile(path, made, 0o600)
}
