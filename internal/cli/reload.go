package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/settings"
	"github.com/wsbouncer/wsbouncer/internal/supervisor"
)

// reloader reloads the settings of a running proxy on request.
type reloader struct {
	load    func() (*settings.Loaded, error)
	inForce *settings.Loaded
	log     *settings.Log
	apply   func(*settings.Loaded) // applies the settings that can change at run time
	reopen  func() bool            // opens the access log again; false if there is none
	manager *supervisor.Supervisor // hears of reloads; nil for none
}

// run serves requests to reload the settings, and to open the access log again, until ctx ends. To reload opens it again, too.
func (r *reloader) run(ctx context.Context, requests, reopen <-chan os.Signal) {
	for {
		select {
		case <-requests:
			r.manager.Reload(func() {
				r.reload()
				r.reopen()
			})
		case <-reopen:
			if !r.reopen() {
				r.log.Info("there is no access log to open again")
			}
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the settings, applies those that can change at run time, and logs those that cannot. With any mistake, it changes
// nothing.
func (r *reloader) reload() {
	now, err := r.load()
	if err != nil {
		mistakes := strings.Split(err.Error(), "\n")
		for _, mistake := range mistakes {
			r.log.Error("invalid setting", "error", mistake)
		}
		r.log.Error("settings not changed because of errors", "errors", len(mistakes))
		return
	}
	warn(r.log.Logger, now)
	var changes []settings.Change
	r.inForce, changes = r.inForce.Reload(now)
	if slices.ContainsFunc(changes, func(c settings.Change) bool { return c.Live }) {
		r.apply(r.inForce)
	}
	if r.log.Enabled(context.Background(), slog.LevelInfo) { // log the changes with the more verbose of the two levels
		defer r.log.Set(&r.inForce.Settings)
	} else {
		r.log.Set(&r.inForce.Settings)
	}
	for _, c := range changes {
		where := c.Source
		if where == "" {
			where = "default"
		}
		if c.Live {
			r.log.Info("setting changed", "name", c.Name, "was", c.Was, "is", c.Is, "from", where)
		} else {
			r.log.Warn("setting needs a restart", "name", c.Name, "in force", c.Was, "new", c.Is, "from", where)
		}
	}
	attributes := []any{"changes", len(changes)}
	if now.File != "" {
		attributes = append([]any{"file", now.File}, attributes...)
	}
	r.log.Info("settings reloaded", attributes...)
}

// warn logs likely mistakes in settings.
func warn(log *slog.Logger, loaded *settings.Loaded) {
	for _, text := range loaded.Warnings {
		log.Warn(text)
	}
}
