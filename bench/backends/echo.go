//go:build linux

// Package backends runs the servers that stand behind the proxies which are compared: echo servers, and in front of them,
// where a comparison asks for it, TLS and a slow network. It needs Linux. Its functions may be called from any goroutine.
package backends

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// StartEcho starts so many echo servers with a wsbouncer binary, and returns their addresses. The caller stops them.
func StartEcho(ctx context.Context, wsbouncer string, count int) (addresses []string, stop func(), err error) {
	var started []*child.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	if addresses, err = child.FreeAddresses(count); err != nil {
		return nil, nil, err
	}
	for _, address := range addresses {
		p, err := child.Start([]string{wsbouncer, "sim", "--listen", address, "--protocol", "echo", "--quiet"})
		if err == nil {
			started = append(started, p)
			err = child.WaitFor(ctx, p, "backend", 10*time.Second, child.Accepts(address))
		}
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("backend: %w", err)
		}
	}
	return addresses, stop, nil
}
