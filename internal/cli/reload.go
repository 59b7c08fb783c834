package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/app/supervisor"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// reloader reloads the settings of a running proxy on request.
type reloader struct {
	load    func() (*settings.Loaded, error)
	inForce *settings.Loaded
	log     *settings.Log
	apply   func(*settings.Loaded) // applies the settings that can change at run time, and reads the files again that they and services name
	reopen  func() bool            // opens the access log again; false if there is none
	manager *supervisor.Supervisor // hears of reloads; nil for none

	database bool                            // the configuration is in one
	asked    chan reloadRequest              // by the admin API
	shown    atomic.Pointer[settings.Loaded] // inForce, for the admin API
}

// newReloader returns a reloader of loaded settings, whose other fields may be set until run is called.
func newReloader(loaded *settings.Loaded, log *settings.Log, load func() (*settings.Loaded, error)) *reloader {
	r := &reloader{load: load, inForce: loaded, log: log, asked: make(chan reloadRequest)}
	r.shown.Store(loaded)
	return r
}

// reloadRequest is a request of the admin API.
type reloadRequest struct{ outcome chan reloadOutcome }

// reloadOutcome is what came of it.
type reloadOutcome struct {
	reloaded api.Reloaded
	err      error
}

// ask has run reload the settings. It may be called from any goroutine, also before run.
func (r *reloader) ask(ctx context.Context) (api.Reloaded, error) {
	request := reloadRequest{make(chan reloadOutcome, 1)}
	select {
	case r.asked <- request:
	case <-ctx.Done():
		return api.Reloaded{}, errors.New("the process starts, ends, or still reads them")
	}
	select {
	case o := <-request.outcome:
		return o.reloaded, o.err
	case <-ctx.Done():
		return api.Reloaded{}, errors.New("the process still reads them: its log will show what came of it")
	}
}

// list returns the settings in force. It may be called from any goroutine.
func (r *reloader) list() api.SettingList {
	loaded := r.shown.Load()
	list := api.SettingList{File: loaded.File, Settings: []api.Setting{}}
	for _, s := range loaded.Shown(r.database) {
		one := api.Setting{Name: s.Name, Value: s.Value, Default: s.Default, From: settings.KindOf(s.Source), Source: s.Source, Live: s.Live}
		if level := strings.ToLower(r.log.Level.Level().String()); s.Name == "log-level" && level != s.Value {
			one.Value, one.From, one.Source = level, api.FromCommand, "wsbouncer log level"
		}
		list.Settings = append(list.Settings, one)
	}
	return list
}

// run serves requests to reload the settings, and to open the access log again, until ctx ends. To reload opens it again, too.
func (r *reloader) run(ctx context.Context, requests, reopen <-chan os.Signal) {
	for {
		select {
		case <-requests:
			r.manager.Reload(func() {
				_, _ = r.reload(ctx) // which has logged what came of it
				r.reopen()
			})
		case request := <-r.asked:
			r.manager.Reload(func() {
				reloaded, err := r.reload(ctx)
				r.reopen()
				request.outcome <- reloadOutcome{reloaded, err}
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
func (r *reloader) reload(ctx context.Context) (reloaded api.Reloaded, err error) {
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
			return reloaded, l.err
		}
		now = l.settings
	case <-ctx.Done():
		r.log.Warn("settings not changed: reading them was not finished when the process ended")
		return reloaded, errors.New("the process ends")
	}
	warn(r.log.Logger, now)
	var changes []settings.Change
	r.inForce, changes = r.inForce.Reload(now)
	r.shown.Store(r.inForce)
	reloaded = api.Reloaded{File: now.File, Changes: []api.SettingChange{}, Warnings: now.Warnings}
	// Without changes, too: files that it reads may have been replaced.
	r.apply(r.inForce)
	if r.log.Enabled(context.Background(), slog.LevelInfo) { // log the changes with the more verbose of the two levels
		defer r.log.Set(&r.inForce.Settings)
	} else {
		r.log.Set(&r.inForce.Settings)
	}
	for _, c := range changes {
		reloaded.Changes = append(reloaded.Changes, api.SettingChange{Name: c.Name, Was: c.Was, Is: c.Is, Source: c.Source, Live: c.Live})
		where := cmp.Or(c.Source, api.FromDefault)
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
	return reloaded, nil
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
