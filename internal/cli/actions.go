package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file has the commands that act on services and backends of the running proxy, and change no configuration.

func newServicePauseCommand() *cobra.Command {
	return newServiceActionCommand("pause", "Make new clients of services wait",
		`Make new clients of services wait in the queue, although connections are idle, until 'wsbouncer service resume'.
Running sessions go on. Clients wait for as long as the service's queue-timeout, and its queue holds as many as its
field queue says; others get HTTP 503, as all new clients of a service without a queue.

A pause is a state of the running proxy and not of the configuration: it ends when the proxy does.`,
		`  wsbouncer service pause stt --why "new model"`)
}

func newServiceResumeCommand() *cobra.Command {
	return newServiceActionCommand("resume", "Serve the clients of paused services again",
		"Serve the clients of paused services again: those that wait get connections at once, in their order.",
		"  wsbouncer service resume stt")
}

func newServiceActionCommand(verb, short, long, example string) *cobra.Command {
	var from proxyFlags
	var order orderFlags
	cmd := &cobra.Command{
		Use: verb + " NAME...", Short: short, Long: long, Example: example,
		Args:              names(config.KindService, true),
		ValidArgsFunction: completeNames(config.KindService, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := actionPaths(api.ServicesPath, verb, args)
			if err != nil {
				return err
			}
			return from.use(func(proxy *client.Client) error { return order.doAll(cmd, proxy, http.MethodPost, paths) })
		},
	}
	order.add(cmd)
	from.add(cmd)
	from.addLocal(cmd)
	return cmd
}

func newBackendRecycleCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var chosen selection
	cmd := &cobra.Command{
		Use:   "recycle NAME...",
		Short: "Replace the connections of backends as they come free",
		Long: `Replace the connections of backends as they come free, such as after a model change: idle ones a few at a time,
and those in use when their sessions end. No session is cut, and the cap holds. A backend that is out of service after
failures is tried at once.`,
		Example: `  wsbouncer backend recycle gpu-1 gpu-2 --why "new model"
  wsbouncer backend recycle --selector zone=a`,
		ValidArgsFunction: completeNames(config.KindBackend, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (len(chosen.labels) == 0) {
				return usageError(fmt.Errorf("%s takes either the names of backends or --selector", cmd.CommandPath()))
			}
			return from.use(func(proxy *client.Client) error {
				names := args
				if len(args) == 0 {
					var err error
					if names, err = chosen.inForce(cmd.Context(), proxy); err != nil {
						return err
					}
				}
				paths, err := actionPaths(api.BackendsPath, "recycle", names)
				if err != nil {
					return err
				}
				return order.doAll(cmd, proxy, http.MethodPost, paths)
			})
		},
	}
	chosen.add(cmd)
	order.add(cmd)
	from.add(cmd)
	from.addLocal(cmd)
	return cmd
}

// inForce returns the names of the backends that are chosen in the configuration of a proxy. It returns an error if there are none.
func (s *selection) inForce(ctx context.Context, proxy *client.Client) ([]string, error) {
	store := remote.New(proxy, config.Options{})
	defer store.Close()
	view, err := store.View(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.of(&view.Content)
	if err == nil && len(names) == 0 {
		err = errors.New("no backend has these labels")
	}
	return names, err
}

// doAll sends the request for an action on each of several services, backends or sessions, and prints what came of them. An error with one
// of them does not save the others, unless no proxy answers.
func (f *orderFlags) doAll(cmd *cobra.Command, proxy *client.Client, method string, paths []string) error {
	var all []error
	for _, path := range paths {
		err := f.do(cmd, proxy, method, path, nil)
		if err != nil {
			all = append(all, err)
		}
		if errors.As(err, new(*client.UnreachableError)) || cmd.Context().Err() != nil {
			break
		}
	}
	return errors.Join(all...)
}

// actionPaths returns the paths of an action on services or backends.
func actionPaths(root, verb string, names []string) (paths []string, err error) {
	for _, name := range names {
		if isNoID(name) {
			return nil, usageError(fmt.Errorf("invalid name %q: use one that 'ls' lists", name))
		}
		paths = append(paths, root+"/"+url.PathEscape(name)+"/"+verb)
	}
	return paths, nil
}
