package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// readOnlyFor reports whether a proxy takes the caller for one who may only read. commands is then the --admin with which commands on the proxy's
// machine may change something; empty if they need none, or if there is no such way. A proxy that does not answer that is taken to allow changes: it is
// older, and refuses them itself.
func readOnlyFor(ctx context.Context, proxy *client.Client) (commands string, readOnly bool) {
	var access api.Access
	if err := proxy.Get(ctx, api.AccessPath, nil, &access); err != nil || access.Role != api.RoleReader {
		return "", false
	}
	if access.Commands == "" && os.Getenv(adminVariable) != "" { // which names another way to the shell that the command is pasted into
		var err error
		if access.Commands, err = localProxy(); err != nil { // it is on another machine, where it is most likely the system's
			directories := state.Directories()
			access.Commands = "unix:" + state.AdminSocket(directories[len(directories)-1])
		}
	}
	return access.Commands, true
}

// cures shows the commands of cures so that they work when they are pasted.
type cures struct {
	root  *cobra.Command
	flags string // behind each command of a proxy
	note  string // about all of them; empty for none
}

// curesAt returns how to show cures to someone who has asked this proxy.
func (f *adminFlags) curesAt(cmd *cobra.Command, proxy *client.Client) *cures {
	c := &cures{root: cmd.Root()}
	commands, readOnly := readOnlyFor(cmd.Context(), proxy)
	switch isSocket := strings.HasPrefix(commands, "unix:"); {
	case readOnly && (isSocket || commands == ""):
		c.note = "Run these commands on the proxy's machine: " + proxy.Address() + " is read-only for you."
		if isSocket {
			c.flags = " --admin " + shellWord(commands)
		}
		return c
	case readOnly: // it has no admin socket
		c.note = "These commands need the operator's token: " + proxy.Address() + " is read-only for you."
	}
	c.flags = f.repeated()
	return c
}

// repeated returns the flags that name the proxy, as they were given. A token is repeated only if it is a reference, since others may see the screen.
func (f *adminFlags) repeated() (flags string) {
	for _, flag := range []struct{ name, value string }{{"admin", f.admin}, {"admin-ca", f.ca}, {"admin-token", f.token}} {
		secret := flag.name == "admin-token" && !strings.HasPrefix(flag.value, "env:") && !strings.HasPrefix(flag.value, "file:")
		if flag.value != "" && !secret {
			flags += " --" + flag.name + " " + shellWord(flag.value)
		}
	}
	return flags
}

// show returns the commands of a cure with the flags that they need.
func (c *cures) show(cure string) string {
	if c.flags == "" {
		return cure
	}
	commands := strings.Split(cure, "; ")
	for i, command := range commands {
		own, ok := strings.CutPrefix(command, "wsbouncer ")
		if !ok {
			continue
		}
		to, _, err := c.root.Find(strings.Fields(own))
		if err == nil && to.Flags().Lookup("admin-ca") != nil { // 'check' has another --admin: the setting
			commands[i] += c.flags
		}
	}
	return strings.Join(commands, "; ")
}

// refusedHere returns, for someone who may only read, that a proxy would refuse a change, and what to use instead; empty for all others.
func refusedHere(ctx context.Context, proxy *client.Client) string {
	commands, readOnly := readOnlyFor(ctx, proxy)
	if !readOnly {
		return ""
	}
	way := "give the operator's token with --admin-token"
	if commands == "" {
		way = "leave out --admin on the proxy's machine"
	} else if strings.HasPrefix(commands, "unix:") {
		way = "use --admin " + shellWord(commands) + " on the proxy's machine"
	}
	return "The change itself would be refused, since " + proxy.Address() + " is read-only for you: " + way + "."
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,[]"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
