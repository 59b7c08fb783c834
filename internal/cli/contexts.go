package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// proxyContext is a proxy that has a name in a file: --admin @NAME.
type proxyContext struct{ admin, token, ca string }

// maxContexts is the maximum size of the file in bytes.
const maxContexts = 1 << 20

// contextsFile returns the path of the file with the names.
func contextsFile() (string, error) {
	if path := os.Getenv(settings.ContextsVariable); path != "" {
		return path, nil
	}
	directory, err := os.UserConfigDir()
	return filepath.Join(directory, "wsbouncer", "contexts.yaml"), err
}

// readContext returns the proxy of a name.
func readContext(name string) (c proxyContext, err error) {
	path, err := contextsFile()
	if err != nil {
		return c, fmt.Errorf("@%s: no file of contexts (or set %s): %w", name, settings.ContextsVariable, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("@%s: %w", name, err)
	}
	root, invalid := strictyaml.Parse(data, maxContexts)
	if invalid != nil {
		return c, fmt.Errorf("%s: %w", invalid.Place(path), invalid)
	}
	var problems []error
	read := strictyaml.Reader{Report: func(n *strictyaml.Node, text string) {
		problems = append(problems, fmt.Errorf("%s: %s", strictyaml.Place(path, n), text))
	}}
	var known []string
	found := false
	for _, entry := range read.Entries(root, "a mapping from names to proxies, such as prod: {admin: https://10.0.0.11:9090}") {
		if known = append(known, entry.Key.Value); entry.Key.Value == name {
			c, found = contextOf(read, entry.Value), true
		}
	}
	switch {
	case len(problems) > 0:
		return c, errors.Join(problems...)
	case !found:
		return c, fmt.Errorf("%s: %w", path, spelling.Unknown("context", name, known))
	case c.admin == "":
		return c, fmt.Errorf("%s: %s: admin is missing: use the address of an admin API", path, name)
	}
	return c, nil
}

// contextOf returns the proxy that a node describes.
func contextOf(read strictyaml.Reader, n *strictyaml.Node) (c proxyContext) {
	fields := map[string]*string{"admin": &c.admin, "admin-token": &c.token, "admin-ca": &c.ca}
	for _, entry := range read.Entries(n, "a mapping with admin, admin-token and admin-ca") {
		if !read.Known(entry, "key", []string{"admin", "admin-token", "admin-ca"}) {
			continue
		}
		text, ok := read.Scalar(entry.Value)
		if isToken := entry.Key.Value == "admin-token"; ok && isToken && text != "" && !strings.HasPrefix(text, "env:") && !strings.HasPrefix(text, "file:") {
			read.Report(entry.Value, "admin-token: invalid token: use env:NAME or file:/path")
		}
		*fields[entry.Key.Value] = text
	}
	return c
}

// at returns where a proxy is, and how a command proves to it who it is: flags win over a context, which wins over the environment.
func (f *adminFlags) at(address string) (c proxyContext, err error) {
	c.admin = address
	if name, ok := strings.CutPrefix(address, "@"); ok {
		if c, err = readContext(name); err != nil {
			return c, err
		}
	}
	c.token = cmp.Or(f.token, c.token, os.Getenv(tokenVariable))
	c.ca = cmp.Or(f.ca, c.ca, os.Getenv(authorityVariable))
	return c, nil
}
