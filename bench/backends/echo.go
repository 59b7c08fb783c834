//go:build linux

// Package backends runs the servers behind the proxies that are compared: echo servers and, where a comparison asks for it, TLS
// and a slow network in front of them. It needs Linux. Its functions may be called from any goroutine.
package backends

import (
	"context"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// StartEcho starts a number of echo servers with a wsbouncer binary, and returns their addresses. The caller stops them.
func StartEcho(ctx context.Context, wsbouncer string, count int) (addresses []string, stop func(), err error) {
	var started []*child.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	for range count {
		p, address, err := child.StartSimulator(ctx, wsbouncer, "echo", "--quiet")
		if err != nil {
			stop()
			return nil, nil, err
		}
		started, addresses = append(started, p), append(addresses, address)
	}
	return addresses, stop, nil
}
