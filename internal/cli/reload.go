package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/app/supervisor"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// reloader reloads the settings of a running proxy on request.
type reloader struct {
	load    func() (*settings.Loaded, error)
	inForce *settings.Loaded
	log     *settings.Log
	apply   func(*settings.Loaded) // applies the settings that can change at run time
	renew   func()                 // reads the files of TLS certificates again; apply does, too
	reopen  func() bool            // opens the access log again; false if there is none
	manager *supervisor.Supervisor // hears of reloads; nil for none
}

// run serves requests to reload the settings, and to open the access log again, until ctx ends. To reload opens it again, too.
func (r *reloader) run(ctx context.Context, requests, reopen <-chan os.Signal) {
	for {
		select {
		case <-requests:
			r.manager.Reload(func() {
				r.reload(ctx)
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

// read is what load returns.
type read struct {
	settings *settings.Loaded
	err      error
}

// reload reads the settings, applies those that can change at run time, and logs those that cannot. With any error, it changes
// nothing. It gives up when ctx ends.
func (r *reloader) reload(ctx context.Context) {
	// A file may never answer, such as a pipe or one on a network file system, and nothing can interrupt reading it. The process must
	// still be able to end: it then ends with this goroutine, which changes nothing.
	loaded := make(chan read, 1)
	go func() {
		now, err := r.load()
		loaded <- read{now, err}
	}()
	var now *settings.Loaded
	select {
	case l := <-loaded:
		if l.err != nil {
			r.refuse(l.err)
			return
		}
		now = l.settings
	case <-ctx.Done():
		r.log.Warn("settings not changed: reading them was not finished when the process ended")
		return
	}
	warn(r.log.Logger, now)
	var changes []settings.Change
	r.inForce, changes = r.inForce.Reload(now)
	if slices.ContainsFunc(changes, func(c settings.Change) bool { return c.Live }) {
		r.apply(r.inForce)
	} else {
		r.renew()
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

// refuse logs what is wrong with settings.
func (r *reloader) refuse(err error) {
	problems := strings.Split(err.Error(), "\n")
	for _, problem := range problems {
		r.log.Error("invalid setting", "error", problem)
	}
	r.log.Error("settings not changed because of errors", "errors", len(problems))
}

// warn logs what is likely to be wrong in settings, and what has no effect.
func warn(log *slog.Logger, loaded *settings.Loaded) {
	for _, text := range loaded.Notes {
		log.Info(text)
	}
	for _, text := range loaded.Warnings {
		log.Warn(text)
	}
}
