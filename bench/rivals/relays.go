//go:build linux

package rivals

import (
	"context"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// relay returns the relay in C: the floor.
func relay(ctx context.Context, o Options) []Rival {
	r := Rival{Name: "c-relay", Title: "C, epoll, one thread, no parsing, no pool: a floor", NoTLS: "it only passes bytes on, without TLS"}
	compiler, program := Find("cc", "gcc", "clang"), filepath.Join(o.Dir, "c-relay")
	if compiler == "" {
		r.Missing = "there is no C compiler"
	} else if _, err := child.Output(ctx, o.Root, compiler, "-O2", "-o", program, "bench/relays/epoll.c"); err != nil {
		r.Missing = err.Error()
	} else {
		r.Version, _ = version(ctx, compiler, "--version")
	}
	r.Command = func(t Task) ([]string, error) { return append([]string{program, t.Listen}, t.Backends...), nil }
	return []Rival{r}
}
