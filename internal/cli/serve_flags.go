package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// serveFlags are the flags of serve, which check shares: the settings of the process, and those that describe one service
// (flags-only operation). The settings themselves are defined in internal/config/settings/table.go, and a service's fields in
// internal/config/service.go.
type serveFlags struct {
	process  settings.Flags
	about    *pflag.FlagSet // all flags below
	backends []string
	files    []string    // with profiles
	service  *fieldFlags // its own fields
	backend  *fieldFlags // fields of all its backends
}

// add adds the flags to a command, and groups them in its help.
func (f *serveFlags) add(cmd *cobra.Command) {
	process := newFlagSet()
	f.process.Add(process)
	f.about = newFlagSet()
	f.about.StringArrayVar(&f.backends, "backend", nil, "URL of an inference server, ws://host:port/path or wss:// (repeat for several); settings of this server may follow, each after a comma: connections=N|auto, connections-max=N, warm=N, weight=X, state=enabled|draining|disabled, discover=dns, discover-interval=DURATION, tls-ca=FILE")
	f.backend = newFieldFlags(f.about, config.KindBackend, func(field string) bool { return field == "connections" || field == "warm" })
	f.about.StringArrayVar(&f.files, "profile-file", nil, "YAML file with profiles of your own (repeat for several)")
	f.service = newFieldFlags(f.about, config.KindService, func(field string) bool { return process.Lookup(field) == nil })
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(process)
	cmd.Flags().AddFlagSet(f.about)
	removeFlags(cmd.Flags(), settings.Removed())
	removeFlags(cmd.Flags(), config.RemovedFields(config.KindService))
	usual, advanced := newFlagSet(), newFlagSet()
	process.VisitAll(func(flag *pflag.Flag) {
		if settings.IsAdvanced(flag.Name) {
			advanced.AddFlag(flag)
		} else {
			usual.AddFlag(flag)
		}
	})
	groupFlags(cmd, flagGroup{"Settings of the process (the same names in a file; WSBOUNCER_LISTEN and so on in the environment)", usual},
		flagGroup{"One service by flags, without a database", f.about}, flagGroup{"Advanced settings of the process, whose defaults suit nearly every proxy", advanced})
}

func newFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// onlyFlags reports whether one service is described by flags, without a database.
func (f *serveFlags) onlyFlags() bool { return len(f.backends) > 0 }

// misused returns what is wrong with the flags that describe a service, each by itself and together with the settings.
func (f *serveFlags) misused(loaded *settings.Loaded) (errs []error) {
	if f.onlyFlags() {
		if loaded != nil && loaded.Database != "" {
			errs = append(errs, fmt.Errorf("--backend: flags cannot describe a service when a database is set (%s: database: %s): "+
				"use 'wsbouncer backend add' to add a backend to it", loaded.Source("database"), loaded.DatabaseShown()))
		}
		return errs
	}
	f.about.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			errs = append(errs, fmt.Errorf("--%s works only with --backend: use %s to change the database",
				flag.Name, commandFor(flag)))
		}
	})
	return errs
}

// commandFor returns the command that changes the flag's field in the database.
func commandFor(flag *pflag.Flag) string {
	text := flag.Value.String()
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		text = strings.Join(list.GetSlice(), ",")
	}
	switch {
	case flag.Name == "profile-file":
		return fmt.Sprintf("'wsbouncer profile add NAME --file %s'", text)
	case slices.ContainsFunc(config.Fields(config.KindBackend), func(field config.Field) bool { return field.Name == flag.Name }):
		return fmt.Sprintf("'wsbouncer backend set NAME --%s %s'", flag.Name, text)
	}
	return fmt.Sprintf("'wsbouncer service set NAME --%s %s'", flag.Name, text)
}

// settings returns the proxy's settings: those of the process, nil for their defaults, and what the flags say of the service, with the
// defaults of what is invalid, which the error reports.
func (f *serveFlags) settings(l *settings.Loaded) (app.Settings, error) {
	s := app.DefaultSettings()
	if l != nil {
		s.Settings, s.Tokens = l.InUse(!f.onlyFlags()), l.Tokens
	}
	const name = app.FixedService
	content := config.NewContent()
	err := errors.Join(f.backend.set(&content, name), f.service.set(&content, name))
	backend := content.Backends[name]
	s.OneService = app.OneService{
		Service: content.Services[name], Backends: f.backends, Connections: backend.Connections, Warm: backend.Warm, ProfileFiles: f.files,
	}
	return s, err
}
