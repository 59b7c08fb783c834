//go:build linux

package rivals

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// gorilla is the Go program in the folder gorilla.
func gorilla(ctx context.Context, o Options) []Rival {
	r := Rival{Name: "gorilla", Title: "Go with gorilla/websocket, whole messages, channel pool"}
	program, source := filepath.Join(o.Dir, "gorilla"), filepath.Join(o.Root, "bench/rivals/gorilla")
	if _, err := child.Output(ctx, source, "go", "build", "-o", program, "."); err != nil {
		r.Missing = err.Error()
		return []Rival{r}
	}
	r.Version, _ = child.Output(ctx, source, "go", "list", "-m", "-f", "{{.Version}}", "github.com/gorilla/websocket")
	r.Command = func(t Task) ([]string, error) {
		argv := []string{program, "-listen", t.Listen, "-size", strconv.Itoa(PoolSize(t))}
		if t.CA != "" {
			argv = append(argv, "-ca", t.CA)
		}
		return append(argv, urls(t)...), nil
	}
	r.Ready = func(t Task) func(context.Context) error {
		return func(ctx context.Context) error { return kit.NewAdmin("http://"+t.Listen).Get(ctx, "/ready", nil) }
	}
	return []Rival{r}
}

// python is the program in the folder python, under gunicorn.
func python(ctx context.Context, o Options) []Rival {
	n := strconv.Itoa(o.Workers["python"])
	r := Rival{Name: "python", Title: "Python with FastAPI, websockets and uvloop under gunicorn, workers: " + n}
	source := filepath.Join(o.Root, "bench/rivals/python")
	dir, err := o.environment(ctx, "python", filepath.Join(source, "requirements.txt"))
	if err != nil {
		r.Missing = err.Error()
		return []Rival{r}
	}
	if r.Version, err = pythonVersions(ctx, filepath.Join(dir, "bin", "python"), filepath.Join(source, "requirements.txt")); err != nil {
		r.Missing = err.Error()
	}
	r.Command = func(t Task) ([]string, error) {
		return []string{
			"env", "PYTHONDONTWRITEBYTECODE=1", "BACKENDS=" + strings.Join(urls(t), ","), "BACKEND_CA=" + t.CA,
			filepath.Join(dir, "bin", "gunicorn"), "--chdir", source, "-w", n, "-k", "relay.Worker", "-b", t.Listen, "--backlog", "4096",
			"--log-level", "warning", "relay:app",
		}, nil
	}
	// gunicorn listens before its workers serve. FastAPI answers this page by itself.
	r.Ready = func(t Task) func(context.Context) error {
		return func(ctx context.Context) error {
			return kit.NewAdmin("http://"+t.Listen).Get(ctx, "/openapi.json", nil)
		}
	}
	return []Rival{r}
}

// pythonVersions returns the interpreter's version and those of the packages that a requirements file pins.
func pythonVersions(ctx context.Context, interpreter, requirements string) (string, error) {
	python, err := version(ctx, interpreter, "--version")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(requirements)
	versions := []string{python}
	for line := range strings.Lines(string(text)) {
		if name, pinned, ok := strings.Cut(strings.TrimSpace(line), "=="); ok {
			versions = append(versions, name+" "+pinned)
		}
	}
	return strings.Join(versions, ", "), err
}

// urls returns the backends' URLs.
func urls(t Task) []string {
	scheme := "ws://"
	if t.CA != "" {
		scheme = "wss://"
	}
	var all []string
	for _, address := range t.Backends {
		all = append(all, scheme+address+"/")
	}
	return all
}
