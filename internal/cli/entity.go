package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// names checks that a command got the names of one entity, or of several.
func names(kind config.Kind, several bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 && several:
			return usageError(fmt.Errorf("%s takes the names of %ss, but got none", cmd.CommandPath(), kind))
		case len(args) != 1 && !several:
			return usageError(fmt.Errorf("%s takes the name of one %s, but got %d", cmd.CommandPath(), kind, len(args)))
		}
		return nil
	}
}

// known returns an error unless an entity of each name exists.
func known(content *config.Content, kind config.Kind, wanted ...string) error {
	for _, name := range wanted {
		if server := ofServer(content, kind, name); server != nil {
			return server
		}
		if !content.Has(kind, name) {
			return spelling.Unknown(string(kind), name, content.Names(kind))
		}
	}
	return nil
}

// newAddCommand returns the command that adds an entity.
func newAddCommand(kind config.Kind, long, example string) *cobra.Command {
	var write writeFlags
	var fields *fieldFlags
	cmd := &cobra.Command{
		Use:               "add NAME",
		Short:             fmt.Sprintf("Add a %s", kind),
		Long:              long,
		Example:           example,
		Args:              names(kind, false),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fields.check(); err != nil {
				return err
			}
			if kind == config.KindKey && fields.values["hash"] == "" {
				write.secret = apikey.New()
				fields.values["hash"] = apikey.HashOf(write.secret).String()
			}
			return write.run(cmd, kind == config.KindService && !write.dryRun, adding(kind, args[0], fields.values))
		},
	}
	fields = addFieldFlags(cmd, kind)
	write.add(cmd)
	return cmd
}

// newListCommand returns the command that lists the entities of a kind. runs says that it shows what running proxies say about them.
func newListCommand(kind config.Kind, long, example string, runs bool, list func(content *config.Content, now *api.Stats) *rows) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: fmt.Sprintf("List the %ss", kind), Long: long, Example: example}
	listing(cmd, runs, func(t *target, content *config.Content, messages io.Writer) (*rows, []json.RawMessage, error) {
		now := t.running(cmd.Context(), messages)
		return list(content, now), forPrograms(content, kind, content.Names(kind), now), nil
	})
	return cmd
}

// newSetCommand returns the command that changes fields of an entity.
func newSetCommand(kind config.Kind, example string) *cobra.Command {
	var write writeFlags
	var fields *fieldFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: fmt.Sprintf("Change fields of a %s", kind),
		Long: fmt.Sprintf(`Change fields of a %s. The others stay as they are; an empty value restores the default.

No change ends a running session.`, kind),
		Example:           example,
		Args:              names(kind, false),
		ValidArgsFunction: completeNames(kind, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(fields.values) == 0 {
				return usageError(fmt.Errorf("%s: nothing to change: set at least one field, such as --%s",
					cmd.CommandPath(), flagOf(config.Fields(kind)[2])))
			}
			if err := fields.check(); err != nil {
				return err
			}
			return write.run(cmd, false, setting(kind, args[0], fields.values))
		},
	}
	fields = addFieldFlags(cmd, kind)
	write.add(cmd)
	return cmd
}

// newRemoveCommand returns the command that removes entities. With another kind given, it can also remove the entities of that kind
// that belong to them.
func newRemoveCommand(kind config.Kind, long, example string, members config.Kind) *cobra.Command {
	var write writeFlags
	write.takesKeys = kind == config.KindKey
	var withMembers bool
	cmd := &cobra.Command{
		Use:               "rm NAME...",
		Aliases:           []string{"remove", "delete"},
		Short:             fmt.Sprintf("Remove %ss", kind),
		Long:              long,
		Example:           example,
		Args:              names(kind, true),
		ValidArgsFunction: completeNames(kind, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return write.run(cmd, false, func(now *config.Content) (config.Change, error) {
				var change config.Change
				for _, name := range slices.Compact(slices.Sorted(slices.Values(args))) {
					if now != nil {
						if err := known(now, kind, name); err != nil {
							return change, err
						}
						users := dependents(now, kind, name)
						if len(users) > 0 && !withMembers {
							return change, fmt.Errorf("the %s %s is used by %s; %s", kind, name, strings.Join(users, ", "), afterwards(kind))
						}
						for _, user := range users {
							_, member, _ := strings.Cut(user, " ")
							change.Mutations = append(change.Mutations, config.Mutation{Verb: config.Remove, Kind: members, Name: member})
						}
					}
					change.Mutations = append(change.Mutations, config.Mutation{Verb: config.Remove, Kind: kind, Name: name})
				}
				return change, nil
			})
		},
	}
	if members != "" {
		cmd.Flags().BoolVar(&withMembers, "with-"+string(members)+"s", false, fmt.Sprintf("also remove its %ss", members))
	}
	write.add(cmd)
	return cmd
}

// dependents returns the entities that refer to an entity: "backend gpu-1".
func dependents(content *config.Content, kind config.Kind, name string) (users []string) {
	switch kind {
	case config.KindService:
		for _, backend := range content.Names(config.KindBackend) {
			if content.Backends[backend].Service == name {
				users = append(users, "backend "+backend)
			}
		}
	case config.KindProfile:
		for _, service := range content.Names(config.KindService) {
			if content.Services[service].Profile == name {
				users = append(users, "service "+service)
			}
		}
	}
	return users
}

// afterwards says what to do about the entities that refer to a kind.
func afterwards(kind config.Kind) string {
	if kind == config.KindService {
		return "remove them first, or use --with-backends to remove them as well"
	}
	return "set another one for them first"
}

// newShowCommand returns the command that prints all fields of an entity.
func newShowCommand(kind config.Kind, example string) *cobra.Command {
	var from targetFlags
	var form output
	runs := kind == config.KindBackend || kind == config.KindTenant // it shows what running proxies say about it
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             fmt.Sprintf("Show all fields of a %s", kind),
		Long:              fmt.Sprintf("Show all fields of a %s, including those with their default. Values that may be secret are hidden;\n'wsbouncer config export' prints them.", kind),
		Example:           example,
		Args:              names(kind, false),
		ValidArgsFunction: completeNames(kind, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.use(cmd, false, func(t *target) error {
				v, err := t.view(cmd.Context(), cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				entity := args[0]
				var running *api.Stats
				if runs {
					running = t.running(cmd.Context(), cmd.ErrOrStderr())
				}
				unconfigured := kind == config.KindTenant && isUnconfigured(&v.Content, entity, running)
				switch {
				case unconfigured: // it has the fields of this one, which need not be configured either
					entity = config.DefaultTenant
				case kind == config.KindBackend:
					if b := running.Backend(entity); b != nil && b.DiscoveredFrom != "" { // it has the fields of that one
						entity = b.DiscoveredFrom
					}
				}
				var values config.Values
				if err := known(&v.Content, kind, entity); err == nil {
					values = v.Content.Shown(kind, entity)
				} else if !unconfigured {
					return err
				}
				out := cmd.OutOrStdout()
				if form.forPrograms() {
					more := useForPrograms(kind, running, args[0])
					if t := running.Tenant(args[0]); kind == config.KindTenant && t != nil && t.Unconfigured {
						more["unconfigured"] = true
					}
					return form.print(out, marked([]json.RawMessage{named(kind, args[0], values, more)}, v.Stale)[0])
				}
				if unconfigured {
					fmt.Fprintf(cmd.ErrOrStderr(), "The tenant %s is not configured: it has the share and the limits of the tenant '%s'.\n", printable.Text(args[0], longestCell), config.DefaultTenant)
				}
				if err := showFields(out, kind, values); err != nil {
					return err
				}
				if kind == config.KindTenant {
					return showUse(out, running.Tenant(args[0]))
				}
				return showNow(out, running, args[0])
			})
		},
	}
	from.add(cmd)
	if runs {
		from.addLocal(cmd)
	}
	form.add(cmd, "table", asJSON, asYAML)
	return cmd
}

// forPrograms returns entities for JSON, with what a proxy says of them; now is nil for nothing.
func forPrograms(content *config.Content, kind config.Kind, names []string, now *api.Stats) []json.RawMessage {
	all := []json.RawMessage{}
	for _, name := range names {
		all = append(all, named(kind, name, content.Shown(kind, name), useForPrograms(kind, now, name)))
	}
	if kind != config.KindTenant || now == nil {
		return all
	}
	for i := range now.Tenants {
		if t := &now.Tenants[i]; t.Unconfigured {
			more := tenantForPrograms(t)
			more["unconfigured"] = true
			all = append(all, named(kind, t.Name, nil, more))
		}
	}
	return all
}

// useForPrograms returns what a proxy says of a service, backend or tenant; nil if that is not known.
func useForPrograms(kind config.Kind, now *api.Stats, name string) map[string]any {
	switch kind {
	case config.KindBackend:
		return nowForPrograms(now, name)
	case config.KindService:
		if s := now.Service(name); s != nil {
			return map[string]any{
				"waiting": s.Queue.Waiting, "oldest_seconds": s.Queue.OldestSeconds, "utilisation": s.Utilisation, "paused": s.Paused,
				"state": s.Condition.Word,
			}
		}
	case config.KindTenant:
		if t := now.Tenant(name); t != nil {
			return tenantForPrograms(t)
		}
	}
	return nil
}
