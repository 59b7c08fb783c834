package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newKeyCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys of clients",
		Long: `Clients of a service with --auth keys need an API key. A key belongs to a tenant, may expire, may be good for some
services only, and may have limits. The configuration has a hash of it, from which the key cannot be found.`,
		Example: `  wsbouncer key add phone --tenant acme --expires 90d
  wsbouncer key ls
  wsbouncer key revoke phone --why "lost"`,
	},
		newKeyListCommand(),
		newShowCommand(config.KindKey, "  wsbouncer key show phone"),
		newKeyAddCommand(),
		newKeySetCommand(),
		newKeyRevokeCommand(),
	)
}

func newKeyAddCommand() *cobra.Command {
	cmd := newAddCommand(config.KindKey, `Make a key, and print it. It cannot be shown again, because only its hash is stored: keep it where your secrets are.

--expires takes a time, a date, or a duration from now such as 90d or 12h. With --hash, the command makes no key, and
stores the hash of one that wsbouncer has made: 'sha256:' and the digits that sha256sum prints.`, `  wsbouncer key add phone --tenant acme --expires 90d
  wsbouncer key add kiosk --tenant acme --services stt,tts --session-limit 20
  wsbouncer key add phone --tenant acme -o json | jq -r .key`)
	cmd.Short = "Make a key, and print it once"
	cmd.Flags().Lookup("hash").Usage = "SHA-256 of a key that wsbouncer has made: no key is made then; allowed: sha256: and 64 hexadecimal digits"
	return cmd
}

func newKeySetCommand() *cobra.Command {
	cmd := newSetCommand(config.KindKey, `  wsbouncer key set phone --expires 2027-12-31
  wsbouncer key set phone --services "" --session-limit 50`)
	cmd.Long = `Change fields of a key. The others stay as they are; an empty value restores the default.

Clients can immediately use a key that no longer expires. Sessions end if the key is no longer good for them and their
service has end-unauthorized.`
	return cmd
}

func newKeyRevokeCommand() *cobra.Command {
	cmd := newRemoveCommand(config.KindKey, `Revoke keys: remove them. No client can use them from now on, on all proxies that share the configuration, within a second.
Running sessions go on, except those of services with end-unauthorized, which end with code 1008. The history of
the configuration keeps who has revoked a key, and why.

In a fleet, the command waits until all proxies have the new version in force, for at most 15 s. It names those that have
not, or that could not be asked, and its exit status is 1 then.`, `  wsbouncer key revoke phone --why "lost"
  wsbouncer key revoke phone kiosk --dry-run`, "")
	inForceEverywhere(cmd)
	cmd.Use, cmd.Short, cmd.Aliases = "revoke NAME...", "Revoke keys", []string{"rm", "remove", "delete"}
	return cmd
}

const expiresAllowed = "a time such as 2027-01-31T00:00:00Z (RFC 3339), a date such as 2027-01-31, or a duration from now such as 90d or 12h"

// expiring replaces a date or duration that was given for the field expires by the time that it stands for.
func expiring(fields *fieldFlags, now time.Time) error {
	text := fields.values["expires"]
	if text == "" {
		return nil
	}
	at, ok := expiry(text, now)
	if !ok {
		return usageError(fmt.Errorf("--expires: %w", value.Invalid("time", text, expiresAllowed)))
	}
	if !at.After(now) {
		return usageError(fmt.Errorf("--expires: %s is in the past: use 'wsbouncer key revoke' to end a key now", at.Format(time.RFC3339)))
	}
	fields.values["expires"] = at.Format(time.RFC3339)
	return nil
}

// expiry returns the time that a text stands for: a time, the beginning of a day in UTC, or a time from now on.
func expiry(text string, now time.Time) (at time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int
		if _, err := fmt.Sscanf(days+"\n", "%d\n", &n); err != nil || n <= 0 || n > 36500 {
			return time.Time{}, false
		}
		return now.UTC().AddDate(0, 0, n).Truncate(time.Second), true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, false
	}
	return now.UTC().Add(d).Truncate(time.Second), true
}

func newKeyListCommand() *cobra.Command {
	return newListCommand(config.KindKey, "List the keys of clients, without the keys themselves.", `  wsbouncer key ls
  wsbouncer key ls --database config.db --output json`, false, func(content *config.Content, _ *api.Stats) *rows {
		return keyRows(content, time.Now())
	})
}

func keyRows(content *config.Content, now time.Time) *rows {
	r := &rows{heads: []string{"NAME", "TENANT", "EXPIRES", "SERVICES"}, names: content.Names(config.KindKey)}
	for _, name := range r.names {
		key := content.Keys[name]
		expires, services := "never", "all"
		if !key.Expires.IsZero() {
			expires = clock(key.Expires)
			if !now.Before(key.Expires) {
				expires += " (expired)"
			}
		}
		if len(key.Services) > 0 {
			services = strings.Join(key.Services, ",")
		}
		r.cells = append(r.cells, []string{name, key.Tenant, expires, services})
	}
	return r
}

// printKey prints a key that was made.
func printKey(out io.Writer, key string) error {
	_, err := fmt.Fprintf(out, "Key: %s\nThis key cannot be shown again: keep it where your secrets are.\n", key)
	return err
}
