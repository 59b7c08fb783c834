//go:build linux

package rivals

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Variant is the proxy with other flags, or another build of it.
type Variant struct {
	Name   string
	Binary string   // empty: the one that is compared
	Flags  []string // in addition to those that the task needs
}

// ParseVariant reads a variant from text such as "direct=--io-uring off" or "before=/path/of/wsbouncer".
func ParseVariant(text string) (Variant, error) {
	name, what, _ := strings.Cut(text, "=")
	switch {
	case name == "" || what == "" || strings.ContainsAny(name, ", "):
		return Variant{}, fmt.Errorf("%q is not NAME=FLAGS, such as direct=--io-uring off, nor NAME=BINARY", text)
	case strings.HasPrefix(what, "-"):
		return Variant{Name: name, Flags: strings.Fields(what)}, nil
	}
	return Variant{Name: name, Binary: what}, nil
}

// rival returns the variant as a rival.
func (v Variant) rival(o Options) Rival {
	r := WSBouncer(v.Name, cmp.Or(v.Binary, o.WSBouncer), "echo", PoolSize, v.Flags...)
	r.Title = "wsbouncer with " + strings.Join(v.Flags, " ")
	if v.Binary != "" {
		r.Title = "another wsbouncer"
	}
	return r
}

// wsbouncers returns the proxy with reused connections, the proxy with connections that serve one session, and the variants.
func wsbouncers(ctx context.Context, o Options) []Rival {
	reused := WSBouncer("wsbouncer", o.WSBouncer, "echo", PoolSize)
	reused.Title = "one warm pool for each backend; connections are used again"
	once := WSBouncer("wsbouncer-one-shot", o.WSBouncer, "one-shot", PoolSize)
	once.Title = "the same, but a connection is used once and replaced"
	said, err := version(ctx, o.WSBouncer, "version")
	if err != nil {
		reused.Missing, once.Missing = err.Error(), err.Error()
	}
	if words := strings.Fields(said); len(words) > 1 { // "wsbouncer 1.2.3 ..."
		said = words[1]
	}
	reused.Version, once.Version = said, said
	all := []Rival{reused, once}
	for _, v := range append([]Variant{{Name: "wsbouncer-no-uring", Flags: []string{"--io-uring", "off"}}}, o.Variants...) {
		r := v.rival(o)
		if v.Binary == "" {
			r.Version, r.Missing = reused.Version, reused.Missing
		}
		all = append(all, r)
	}
	return all
}

// WSBouncer returns the proxy with a profile, a number of connections to each backend, opened in advance, and more flags. Like the
// others, it does not log sessions.
func WSBouncer(name, binary, profile string, each func(Task) int, flags ...string) Rival {
	r := Rival{Name: name, Serves: true}
	r.Command = func(t Task) ([]string, error) {
		argv := []string{
			binary, "serve", "--admin", t.Admin, "--profile", profile, "--log-level", "warn",
			"--connections", strconv.Itoa(each(t)),
		}
		if t.Serves == nil {
			argv = append(argv, "--listen", t.Listen)
		} else {
			argv = append(argv, "--tls-listen", t.Listen, "--tls-cert", t.Serves.File, "--tls-key", t.Serves.Key)
		}
		argv = append(argv, flags...)
		if t.CA != "" {
			argv = append([]string{"env", "SSL_CERT_FILE=" + t.CA}, argv...)
		}
		for _, url := range urls(t) {
			argv = append(argv, "--backend", url)
		}
		return argv, nil
	}
	r.Ready = func(t Task) func(context.Context) error {
		return func(ctx context.Context) error { return warm(ctx, t, each(t)) }
	}
	return r
}

// PoolSize returns the number of connections to one backend: all pools together hold all sessions and a tenth more, but at most 500 more, so that
// 20,000 file descriptors are enough for 9,000 sessions.
func PoolSize(t Task) int { return (t.Sessions+min(t.Sessions/10, 500))/len(t.Backends) + 8 }

// warm asks the admin API whether the proxy is ready and each pool has that many idle connections.
func warm(ctx context.Context, t Task, each int) error {
	admin := kit.NewAdmin("http://" + t.Admin)
	if err := admin.Get(ctx, "/readyz", nil); err != nil {
		return err
	}
	stats, err := admin.Stats(ctx)
	if err != nil {
		return err
	}
	idle, want := 0, each*len(t.Backends)
	for _, b := range stats.Backends {
		idle += b.Idle
	}
	if idle < want {
		return fmt.Errorf("%d of %d connections are idle", idle, want)
	}
	return nil
}
