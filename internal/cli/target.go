package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// The environment variables that name a configuration.
const (
	adminVariable     = "WSBOUNCER_ADMIN"
	tokenVariable     = "WSBOUNCER_ADMIN_TOKEN"
	authorityVariable = "WSBOUNCER_ADMIN_CA"
	databaseVariable  = "WSBOUNCER_DATABASE"
)

// targetFlags say which configuration a command uses: that of a running proxy, or that in a database.
type targetFlags struct {
	adminFlags
	database string
}

func (f *targetFlags) add(cmd *cobra.Command) {
	f.adminFlags.add(cmd)
	cmd.Flags().StringVar(&f.database, "database", "", "use this database directly: "+stores.Permanent+" (or "+databaseVariable+")")
}

// target is the configuration that a command uses.
type target struct {
	config.Store
	name  string         // for people
	proxy *remote.Client // that runs with it; nil if none is known
}

// Close closes the store and the connection to the proxy.
func (t *target) Close() error {
	err := t.Store.Close()
	if t.proxy != nil {
		err = errors.Join(err, t.proxy.Close())
	}
	return err
}

// errNoTarget: no flag, variable or socket names a configuration.
var errNoTarget = errors.New("no proxy and no database is given")

// choose returns the address of the proxy and the database to use. It returns both only if both flags are given: then the
// configuration comes from the database, and the state of the backends from the proxy.
func (f *targetFlags) choose() (admin, database string, err error) {
	if f.admin != "" || f.database != "" {
		return f.admin, f.database, nil
	}
	if admin = os.Getenv(adminVariable); admin != "" {
		return admin, "", nil
	}
	if database = os.Getenv(databaseVariable); database != "" {
		return "", database, nil
	}
	if admin, err = localProxy(); errors.Is(err, fs.ErrNotExist) {
		err = usageError(fmt.Errorf("%w, and %w: use --admin ADDRESS (or set %s) for a running proxy, "+
			"or --database DATABASE (or set %s)", errNoTarget, err, adminVariable, databaseVariable))
	}
	return admin, "", err
}

// open opens the configuration. It creates a missing database file only if making is set.
func (f *targetFlags) open(ctx context.Context, making bool) (*target, error) {
	return f.openFor(ctx, making, config.Options{Profiles: config.CheckProfiles})
}

// openFor is open with options for the database's store.
func (f *targetFlags) openFor(ctx context.Context, making bool, options config.Options) (*target, error) {
	admin, database, err := f.choose()
	if err != nil {
		return nil, err
	}
	t := new(target)
	if admin != "" {
		connection, err := f.connect(admin)
		if err != nil {
			return nil, err
		}
		t.proxy = remote.New(connection, config.Options{})
		t.Store, t.name = t.proxy, admin
	}
	if database == "" {
		return t, nil
	}
	if err := stores.Check(database); err != nil {
		return nil, usageError(fmt.Errorf("--database: %w", err))
	}
	if database == stores.Memory {
		return nil, usageError(fmt.Errorf("--database: %s would end with this command: use a permanent database, or --admin for a proxy that runs with it", database))
	}
	if path, missing := stores.Missing(database); missing && !making {
		return nil, fmt.Errorf("the database %s does not exist: 'wsbouncer serve', 'migrate', 'service add', 'config import' and 'config apply' create it, but not with --dry-run", path)
	}
	t.name = stores.Redact(database)
	if t.Store, err = stores.Open(database, options); err != nil {
		return nil, fmt.Errorf("--database: %w", err)
	}
	return t, nil
}

// use runs f with the configuration.
func (f *targetFlags) use(cmd *cobra.Command, making bool, do func(t *target) error) (err error) {
	t, err := f.open(cmd.Context(), making)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return explained(do(t), "use --admin for another proxy, or --database for the database itself")
}

// hasSecrets returns an error if a configuration lacks what readers are not shown: it could not be restored, and differs from what it is.
func (t *target) hasSecrets(ctx context.Context, content *config.Content) error {
	if t.proxy == nil || t.Store != config.Store(t.proxy) {
		return nil
	}
	if _, readOnly := readOnlyFor(ctx, t.proxy.API()); !readOnly {
		return nil
	}
	if _, err := config.NewSnapshot("", content, nil); err != nil {
		return errors.New("the proxy shows you no secrets, without which the configuration is incomplete: use the operators' token, or the admin socket on its machine")
	}
	return nil
}

// explained adds to the error of a proxy that does not answer what an operator can do about it; elsewhere says what to use instead.
func explained(err error, elsewhere string) error {
	unreachable, ok := errors.AsType[*client.UnreachableError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, fs.ErrPermission):
		socket := strings.TrimPrefix(strings.TrimPrefix(unreachable.Address, "unix:"), "//")
		return fmt.Errorf("%w (%s)", err, permitted(socket))
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w (use --admin-ca FILE if your own authority has signed its certificate)", err)
	}
	return fmt.Errorf("%w (is it running? %s)", err, elsewhere)
}

// view returns the configuration to show. If the store fails and a proxy runs, that is the configuration in force, and view writes to
// messages since when the store has failed and why.
func (t *target) view(ctx context.Context, messages io.Writer) (remote.View, error) {
	v, err := t.look(ctx)
	if err == nil && v.Stale != nil {
		fmt.Fprintf(messages, "The configuration store has failed since %s: %s\nShown is version %s, which is in force.\n",
			v.Stale.Since.UTC().Format(time.RFC3339), v.Stale.Reason, v.Version)
	}
	return v, err
}

func (t *target) look(ctx context.Context) (v remote.View, err error) {
	if t.proxy != nil && t.Store == config.Store(t.proxy) {
		return t.proxy.View(ctx)
	}
	if v.Content, v.Version, err = t.content(ctx); err == nil || t.proxy == nil || errors.As(err, new(config.Problems)) {
		return v, err
	}
	if v, failed := t.proxy.View(ctx); failed == nil {
		v.Stale = &remote.Stale{Since: time.Now(), Reason: err.Error()}
		return v, nil
	}
	return v, err
}

// content loads the configuration.
func (t *target) content(ctx context.Context) (config.Content, string, error) {
	snapshot, err := t.Load(ctx)
	if err != nil {
		return config.Content{}, "", listed("the configuration of "+t.name+" is invalid", err)
	}
	return snapshot.Content(), snapshot.Version(), nil
}
