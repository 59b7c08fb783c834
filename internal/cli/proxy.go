package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// proxyFlags say which running proxy a command uses.
type proxyFlags struct{ adminFlags }

// open returns a client of the proxy: that of --admin, of the environment, or the one on this machine whose admin socket is in a
// state directory.
func (f *proxyFlags) open() (*client.Client, error) {
	address := cmp.Or(f.admin, os.Getenv(adminVariable))
	if address == "" {
		var err error
		if address, err = localProxy(); errors.Is(err, fs.ErrNotExist) {
			return nil, usageError(fmt.Errorf("no proxy is given, and %w: use --admin ADDRESS (or set %s)", err, adminVariable))
		} else if err != nil {
			return nil, err
		}
	}
	return f.connect(address)
}

// localProxy returns the address of the proxy on this machine whose admin socket is in a state directory. The error is [fs.ErrNotExist] if there
// is none, and [fs.ErrPermission] if this user may not look.
func localProxy() (address string, err error) {
	var sockets []string
	for _, directory := range state.Directories() {
		socket := state.AdminSocket(directory)
		info, err := os.Stat(socket)
		switch {
		case err == nil && info.Mode().Type() == fs.ModeSocket:
			return "unix:" + socket, nil
		case errors.Is(err, fs.ErrPermission):
			return "", fmt.Errorf("this user may not look for a proxy at %s: %w (%s)", socket, fs.ErrPermission, permitted(directory))
		}
		sockets = append(sockets, socket)
	}
	return "", missingProxy(sockets)
}

// missingProxy is the error that no proxy on this machine has one of these admin sockets.
type missingProxy []string

// Error implements error.
func (m missingProxy) Error() string {
	return "no proxy on this machine has its admin socket at " + strings.Join(m, " or ")
}

// Is makes it an [fs.ErrNotExist].
func (m missingProxy) Is(target error) bool { return target == fs.ErrNotExist }

// permitted says what a user can do who may not use a proxy's socket or directory.
func permitted(path string) string {
	group := fileowner.Group(path)
	if group == "" {
		return "run this command with sudo"
	}
	return "run this command with sudo, or join the group " + group
}

// use runs f with a client of the proxy.
func (f *proxyFlags) use(do func(proxy *client.Client) error) (err error) {
	proxy, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	return explained(do(proxy), "use --admin for another proxy")
}

// orderFlags say who has a command change a running proxy, and why; for the audit log.
type orderFlags struct{ who, why string }

func (f *orderFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.why, "why", "", "reason, for the audit log")
	cmd.Flags().StringVar(&f.who, "who", "", "who does it, for the audit log (default: user@host)")
}

// order returns the body of the request.
func (f *orderFlags) order() api.Order {
	return api.Order{Who: cmp.Or(f.who, whoami()), Why: f.why}
}

// do sends the request for an action and prints what came of it.
func (f *orderFlags) do(cmd *cobra.Command, proxy *client.Client, method, path string, query url.Values) error {
	var outcome api.Outcome
	r := client.Request{Method: method, Path: path, Query: query, Body: f.order()}
	if err := proxy.Do(cmd.Context(), r, &outcome); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), outcome.Text); err != nil {
		return err
	}
	return undone(&outcome)
}

// undone returns the error for an action that some proxies have not done; nil if all have.
func undone(outcome *api.Outcome) error {
	var all []error
	for i := range outcome.Missing {
		all = append(all, errors.New(outcome.Missing[i].String()))
	}
	for _, o := range outcome.Proxies {
		if o.Failed {
			all = append(all, fmt.Errorf("%s: %s", o.Name, o.Text))
		}
	}
	return errors.Join(all...)
}

// confirm asks on a terminal before something is done that cannot be undone. Without one, --yes is needed. It returns an error if the
// user does not want it.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usageError(fmt.Errorf("%s: there is no terminal to ask on: use --yes", question))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s? [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // it ends with the process at the latest: a read from a terminal cannot be interrupted
		answer, _ := bufio.NewReader(in).ReadString('\n')
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errors.New("not confirmed: nothing was done")
	case <-cmd.Context().Done():
		return errors.New("interrupted: nothing was done")
	}
}
