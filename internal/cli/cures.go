package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// pasteable returns the commands of a problem's cure so that they reach the proxy that this command was asked about: with the same flags that say
// where it is. A token is repeated only if it is a reference, since others may see the screen.
func (f *adminFlags) pasteable(cmd *cobra.Command, cure string) string {
	var flags string
	for _, flag := range []struct{ name, value string }{{"admin", f.admin}, {"admin-ca", f.ca}, {"admin-token", f.token}} {
		secret := flag.name == "admin-token" && !strings.HasPrefix(flag.value, "env:") && !strings.HasPrefix(flag.value, "file:")
		if flag.value != "" && !secret {
			flags += " --" + flag.name + " " + shellWord(flag.value)
		}
	}
	if flags == "" {
		return cure
	}
	commands := strings.Split(cure, "; ")
	for i, command := range commands {
		own, ok := strings.CutPrefix(command, "wsbouncer ")
		if !ok {
			continue
		}
		to, _, err := cmd.Root().Find(strings.Fields(own))
		if err == nil && to.Flags().Lookup("admin-ca") != nil { // 'check' has another --admin: the setting
			commands[i] += flags
		}
	}
	return strings.Join(commands, "; ")
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,[]"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
