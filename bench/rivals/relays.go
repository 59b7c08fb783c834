//go:build linux

package rivals

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

const onlyBytes = "it only passes bytes on, without TLS"

// relays returns the two relays in C: the floors.
func relays(ctx context.Context, o Options) []Rival {
	epoll := Rival{Name: "c-relay", Title: "C, epoll, one thread, no parsing, no pool: a floor"}
	uring := Rival{Name: "uring-relay", Title: "C, io_uring (multishot, provided buffers), one thread, no parsing, no pool: a floor"}
	both := []Rival{compiled(ctx, o, epoll, "epoll.c"), compiled(ctx, o, uring, "uring.c")}
	if both[1].Missing == "" {
		both[1].Missing = refused(ctx, both[1])
	}
	return both
}

// compiled compiles a relay and adds its program to the rival.
func compiled(ctx context.Context, o Options, r Rival, source string) Rival {
	r.NoTLS = onlyBytes
	compiler := Find("cc", "gcc", "clang")
	if compiler == "" {
		r.Missing = "there is no C compiler"
		return r
	}
	program := filepath.Join(o.Dir, r.Name)
	if _, err := child.Output(ctx, o.Root, compiler, "-O2", "-o", program, filepath.Join("bench/relays", source)); err != nil {
		r.Missing = err.Error()
		return r
	}
	r.Version, _ = version(ctx, compiler, "--version")
	return tcp(r, program)
}

// tcp adds the command of one of our relays to the rival: flags, then listener and backends.
func tcp(r Rival, program string, flags ...string) Rival {
	r.NoTLS = onlyBytes
	r.Command = func(t Task) ([]string, error) {
		return slices.Concat([]string{program}, flags, []string{t.Listen}, t.Backends), nil
	}
	return r
}

// refused says why a relay cannot start: the kernel or the container may forbid io_uring.
func refused(ctx context.Context, r Rival) string {
	addresses, err := child.FreeAddresses(2)
	if err != nil {
		return err.Error()
	}
	p, _, err := r.Start(ctx, Task{Listen: addresses[0], Backends: addresses[1:]})
	if err != nil {
		return err.Error()
	}
	p.Stop()
	return ""
}

// Waiting returns the C relay, and the Go relay with each of its ways of waiting.
func Waiting(ctx context.Context, o Options) ([]Rival, error) {
	program := filepath.Join(o.Dir, "waiting")
	if _, err := child.Output(ctx, filepath.Join(o.Root, "bench"), "go", "build", "-o", program, "./relays/waiting"); err != nil {
		return nil, err
	}
	all := []Rival{compiled(ctx, o, Rival{Name: "c-relay", Title: "C, epoll, one thread"}, "epoll.c")}
	for _, wait := range []string{"block", "poller", "raw", "alert"} {
		for loops := 1; loops <= 2; loops++ {
			r := Rival{Name: fmt.Sprintf("%s-%d", wait, loops), Title: fmt.Sprintf("Go, -wait %s, loops: %d", wait, loops)}
			all = append(all, tcp(r, program, "-wait", wait, "-loops", strconv.Itoa(loops)))
		}
	}
	goroutines := Rival{Name: "goroutines", Title: "Go, a goroutine for each direction"}
	return append(all, tcp(goroutines, program, "-wait", "goroutines")), nil
}
