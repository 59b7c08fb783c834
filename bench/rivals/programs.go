//go:build linux

package rivals

import (
	"context"
	"path/filepath"
	"strconv"

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
