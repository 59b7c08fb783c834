//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"text/template"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// haproxyConfig is the configuration that HAProxy is compared with in bench/rivals, from the module's root.
const haproxyConfig = "bench/rivals/haproxy/haproxy.cfg"

// haproxySettings are what it needs to know.
type haproxySettings struct {
	Listen      string
	Backends    []string
	Workers     int
	Connections int
	CA          string // none: no TLS
}

// startHAProxy starts HAProxy in front of a backend, and returns its address. The caller stops the process.
func (p *programs) startHAProxy(ctx context.Context, backend string) (*child.Process, string, error) {
	addresses, err := child.FreeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(p.dir, "haproxy.cfg")
	if err := configureHAProxy(filepath.Join(p.root, haproxyConfig), file, addresses[0], backend); err != nil {
		return nil, "", err
	}
	started, err := child.Start([]string{p.haproxy, "-db", "-f", file})
	if err != nil {
		return nil, "", err
	}
	if err := child.WaitFor(ctx, started, "HAProxy", patience, child.Accepts(addresses[0])); err != nil {
		started.Stop()
		return nil, "", err
	}
	return started, addresses[0], nil
}

// configureHAProxy writes its configuration.
func configureHAProxy(from, to, listen, backend string) error {
	config, err := template.ParseFiles(from)
	if err != nil {
		return err
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	return config.Execute(file, haproxySettings{Listen: listen, Backends: []string{backend}, Workers: 1, Connections: 100})
}
