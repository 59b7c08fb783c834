package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// everywhereTimeout is how long all proxies of a fleet may take to put a change in force: each notices it within a second.
const everywhereTimeout = 15 * time.Second

// inForceEverywhere has a command that changes the configuration wait until all proxies of the fleet have the change in force.
func inForceEverywhere(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := run(cmd, args); err != nil {
			return err
		}
		if dry := cmd.Flags().Lookup("dry-run"); dry != nil && dry.Value.String() == "true" {
			return nil
		}
		from := targetFlagsOf(cmd)
		from.whole = true
		t, err := from.open(cmd.Context(), false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		if t.proxy == nil { // no proxy can be asked
			return nil
		}
		revisions, err := t.History(cmd.Context(), 1)
		if err != nil || len(revisions) == 0 {
			return err
		}
		e := allProxies{proxy: t.proxy.API(), version: revisions[0].Version, timeout: everywhereTimeout, every: pollEvery}
		return e.wait(cmd.Context())
	}
}

// allProxies waits until all proxies of a fleet have a version of the configuration in force.
type allProxies struct {
	proxy          getter
	version        string
	timeout, every time.Duration
}

// wait returns nil once it is in force, or if the proxy is alone, and otherwise an error that says where it is not.
func (e *allProxies) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	var left []string // where it is not in force, as of the last answer
	for {
		var now api.Stats
		err := e.proxy.Get(ctx, api.StatsPath, nil, &now)
		switch {
		case err != nil && ctx.Err() != nil && len(left) > 0: // the last question was cut off
		case err != nil && ctx.Err() == nil && !errors.As(err, new(*client.UnreachableError)):
			return err
		case err != nil:
			left = []string{err.Error()}
		case !now.Fleet.Shares():
			return nil
		default:
			if left = e.left(now.Fleet); len(left) == 0 {
				return nil
			}
		}
		if !tasks.Sleep(ctx, e.every) {
			return fmt.Errorf("version %s is not in force everywhere: %s", e.version, strings.Join(left, "; "))
		}
	}
}

// left says which proxies do not have the version in force, as far as that is known.
func (e *allProxies) left(f *api.Fleet) (left []string) {
	for i := range f.Proxies {
		if p := &f.Proxies[i]; p.Reachable && !reached(p.Configuration, e.version) {
			left = append(left, fmt.Sprintf("%s has version %s", p.Name, p.Configuration))
		}
	}
	for i := range f.Missing {
		left = append(left, f.Missing[i].String())
	}
	return left
}

// reached reports whether a proxy with a version of the configuration in force has another one, or a later one, in force.
func reached(has, wanted string) bool {
	a, errA := strconv.ParseUint(has, 10, 64)
	b, errB := strconv.ParseUint(wanted, 10, 64)
	return has == wanted || errA == nil && errB == nil && a >= b
}
