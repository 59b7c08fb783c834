//go:build linux

package main

import (
	"context"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// profiles returns the rivals of the scenario of that name: the proxy with the profile echo, with two that must know some messages, and with clients
// that can come back.
func profiles(_ context.Context, st *stage, _ []rivals.Rival) (all []rivals.Rival, err error) {
	file := filepath.Join(st.setUp.Root, "bench/profiles/accepting.yaml")
	for _, name := range []string{"echo", "vosk", "funasr-reused"} {
		all = append(all, rivals.WSBouncer(name, st.wsbouncer, name, rivals.PoolSize, "--profile-file", file))
	}
	all = append(all, rivals.WSBouncer("vosk-reconnect", st.wsbouncer, "vosk", rivals.PoolSize, "--profile-file", file, "--reconnect", "30s"))
	return all, nil
}

// voskServer starts a simulated Vosk server, which also accepts the subprotocol of another profile.
func voskServer(ctx context.Context, st *stage) (servers, error) {
	p, address, err := child.StartSimulator(ctx, st.tools, "vosk", "--subprotocol", "binary", "--quiet")
	if err != nil {
		return servers{}, err
	}
	return servers{addresses: []string{address}, stop: p.Stop}, nil
}
