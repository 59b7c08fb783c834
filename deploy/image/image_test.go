//go:build linux

// Package image_test builds the image from the program that `make packages` built, and runs it. `make test-packages` says where that is.
package image_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// engine is a program that runs containers, with what it must be told here.
type engine struct {
	name string
	args []string
}

// run runs the engine.
func (e engine) run(t *testing.T, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, e.name, append(e.args[:len(e.args):len(e.args)], args...)...).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// container runs the image until it ends. Limits are set, since an engine may not raise those that it has.
func (e engine) container(t *testing.T, args ...string) (string, error) {
	return e.run(t, append([]string{"run", "--rm", "--network", "host", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"}, args...)...)
}

const image = "localhost/wsbouncer:test"

// build builds the image with the first engine that builds it and runs it.
func build(t *testing.T) engine {
	dist := os.Getenv("WSBOUNCER_DIST")
	if dist == "" {
		t.Skip("WSBOUNCER_DIST is not set: use make test-packages")
	}
	root := filepath.Join("..", "..")
	files := t.TempDir()
	archive, err := filepath.Glob(filepath.Join(dist, "wsbouncer_*_linux_"+runtime.GOARCH+".tar.gz"))
	if err != nil || len(archive) != 1 {
		t.Fatalf("%q in %s, not one archive (%v)", archive, dist, err)
	}
	program := filepath.Join(files, "linux", runtime.GOARCH)
	if err := os.MkdirAll(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command("go", "-C", root, "run", "./deploy/generate", filepath.Join(files, "generated")),
		exec.Command("tar", "-xzf", archive[0], "-C", program, "--strip-components=1", "--wildcards", "*/wsbouncer"),
	} {
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, output)
		}
	}
	var reasons []string
	for _, e := range []engine{{"docker", nil}, {"podman", nil}, {"podman", []string{"--runtime", "runc"}}} {
		if _, err := e.run(t, "info"); err != nil {
			reasons = append(reasons, fmt.Sprintf("%s does not work here: %v", e.name, err))
			continue
		}
		cmd := exec.Command("deploy/image/build", files, image)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CONTAINER_ENGINE="+e.name)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, output)
		}
		output, err := e.container(t, image, "--version")
		if err == nil {
			if !strings.Contains(output, "wsbouncer v") {
				t.Errorf("--version printed %q", output)
			}
			return e
		}
		reasons = append(reasons, fmt.Sprintf("%s %s cannot run a container here: %s", e.name, e.args, output))
	}
	t.Skip(strings.Join(reasons, "\n"))
	return engine{}
}

// TestImage builds the image, and runs it as those would who deploy it: with a read-only root file system, as its user, with and without a
// writable state directory.
func TestImage(t *testing.T) {
	e := build(t)
	var described []struct {
		Config struct {
			User    string
			Volumes map[string]any
		}
	}
	if output, err := e.run(t, "inspect", "--type", "image", image); err != nil || json.Unmarshal([]byte(output), &described) != nil {
		t.Fatalf("inspect: %v\n%s", err, output)
	}
	if user := described[0].Config.User; user != "65532:65532" {
		t.Errorf("the image's user is %q: Kubernetes' runAsNonRoot needs a number", user)
	}

	t.Run("read-only root", func(t *testing.T) {
		name := fmt.Sprintf("wsbouncer-test-%d", os.Getpid())
		if output, err := e.container(t, "--detach", "--name", name, "--read-only", image, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		t.Cleanup(func() { _, _ = e.after("rm", "--force", name) })
		address := waitForLog(t, e, name, regexp.MustCompile(`msg="admin API" address=(http://\S+)`))
		response, err := http.Get(address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("/readyz answered %s: %s", response.Status, body)
		}
		// The state directory is a volume that the image's user may write to, and the commands in the container find the proxy there.
		if output, err := e.run(t, "exec", name, "wsbouncer", "service", "add", "stt"); err != nil {
			t.Errorf("service add: %v\n%s", err, output)
		}
		if output, err := e.run(t, "exec", name, "wsbouncer", "status"); err != nil || !strings.Contains(output, "stt") {
			t.Errorf("status: %v\n%s", err, output)
		}
		if output, err := e.run(t, "stop", "--time", "60", name); err != nil {
			t.Errorf("stop: %v\n%s", err, output)
		}
	})

	t.Run("state directory that is not writable", func(t *testing.T) {
		output, err := e.container(t, "--read-only", "--tmpfs", "/var/lib/wsbouncer:ro", image, "serve", "--listen", "127.0.0.1:0")
		if err == nil || !strings.Contains(output, "/var/lib/wsbouncer/") || !strings.Contains(output, "read-only file system") {
			t.Errorf("the proxy ended with %v, and said\n%s", err, output)
		}
	})

	t.Run("flags need no state", func(t *testing.T) {
		name := fmt.Sprintf("wsbouncer-flags-test-%d", os.Getpid())
		output, err := e.container(t, "--detach", "--name", name, "--read-only", "--tmpfs", "/var/lib/wsbouncer:ro", image,
			"serve", "--listen", "127.0.0.1:0", "--backend", "ws://127.0.0.1:1")
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		t.Cleanup(func() { _, _ = e.after("rm", "--force", name) })
		waitForLog(t, e, name, regexp.MustCompile(`msg=listening address=(\S+)`))
	})
}

// after is run after a test, when its context has ended.
func (e engine) after(args ...string) (string, error) {
	output, err := exec.Command(e.name, append(e.args[:len(e.args):len(e.args)], args...)...).CombinedOutput()
	return string(output), err
}

// waitForLog follows a container's log until a line fits, and returns what its first group matched.
func waitForLog(t *testing.T, e engine, name string, line *regexp.Regexp) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follow := exec.CommandContext(ctx, e.name, append(e.args[:len(e.args):len(e.args)], "logs", "--follow", name)...)
	reader, writer := io.Pipe()
	follow.Stdout, follow.Stderr = writer, writer
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { writer.CloseWithError(follow.Wait()) }() // ends with the command, which cancel ends
	defer reader.Close()
	var said strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := reader.Read(buffer)
		said.Write(buffer[:n])
		if match := line.FindStringSubmatch(said.String()); match != nil && strings.Contains(said.String()[strings.Index(said.String(), match[0]):], "\n") {
			return match[1]
		}
		if err != nil {
			t.Fatalf("no line in the log fits %s:\n%s", line, said.String())
		}
	}
}
