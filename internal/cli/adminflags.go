package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// adminFlags say where the admin API of a running proxy is, and how a command proves to it who it is. Variables of the
// environment stand in for flags that are not given.
type adminFlags struct {
	admin, token, ca string
	whole            bool // static: the command is about the whole fleet, unless local is set
	local            bool // ask only the proxy of the admin API
}

// addLocal makes the command one about the whole fleet, with a flag for one proxy only.
func (f *adminFlags) addLocal(cmd *cobra.Command) {
	f.whole = true
	cmd.Flags().BoolVar(&f.local, "local", false, "only this proxy, not the others of its fleet")
}

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.admin, "admin", "", "admin API of a running proxy: "+client.AllowedAddresses+", or @NAME of a file (or "+adminVariable+")")
	cmd.Flags().StringVar(&f.token, "admin-token", "", "token of the admin API: env:NAME, file:/path, or the token itself (better in "+tokenVariable+")")
	cmd.Flags().StringVar(&f.ca, "admin-ca", "", "file of the authorities that may have signed an https:// proxy's certificate (or "+authorityVariable+"; default: the system's)")
}

// adminFlagsOf returns the flags of a command that another part of it has added.
func adminFlagsOf(cmd *cobra.Command) (f adminFlags) {
	for name, value := range map[string]*string{"admin": &f.admin, "admin-token": &f.token, "admin-ca": &f.ca} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*value = flag.Value.String()
		}
	}
	return f
}

// targetFlagsOf is adminFlagsOf, with the flag of a database.
func targetFlagsOf(cmd *cobra.Command) targetFlags {
	f := targetFlags{adminFlags: adminFlagsOf(cmd)}
	if database := cmd.Flags().Lookup("database"); database != nil {
		f.database = database.Value.String()
	}
	return f
}

// connect returns a client of the admin API at an address. It does not connect yet. All errors are those of usage.
func (f *adminFlags) connect(address string) (*client.Client, error) {
	o := client.Options{Fleet: f.whole && !f.local}
	at, err := f.at(address)
	if err != nil {
		return nil, usageError(err)
	}
	if o.Token, err = resolvedToken(at.token); err != nil {
		return nil, usageError(err)
	}
	if at.ca != "" {
		if o.Authorities, err = secure.Authorities(at.ca); err != nil {
			return nil, usageError(fmt.Errorf("--admin-ca: %w", err))
		}
	}
	c, err := client.Open(at.admin, o)
	if err != nil && f.admin == "" && address == os.Getenv(adminVariable) {
		err = fmt.Errorf("%s: %w", adminVariable, err)
	}
	return c, usageError(err)
}

// resolvedToken returns the token that a text is or refers to; empty for none. An error does not repeat it.
func resolvedToken(token string) (string, error) {
	if !strings.HasPrefix(token, "env:") && !strings.HasPrefix(token, "file:") {
		return token, nil
	}
	if strings.ContainsAny(token, " \t") { // secret.Resolve would take the last word for the reference
		return "", errors.New("--admin-token: invalid token: it has spaces")
	}
	secret, err := secret.Resolve(token)
	if err != nil {
		return "", fmt.Errorf("--admin-token: %w", err)
	}
	return secret, nil
}
