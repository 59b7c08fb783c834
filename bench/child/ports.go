//go:build linux

package child

import (
	"context"
	"fmt"
	"net"
	"time"
)

// FreeAddresses finds loopback addresses with ports that are free now: all are
// listened on at once, so that they differ, and then let go.
func FreeAddresses(count int) ([]string, error) {
	addresses := make([]string, count)
	for i := range addresses {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses[i] = listener.Addr().String()
	}
	return addresses, nil
}

// WaitFor asks again until the answer is nil, the process has ended or the
// patience has.
func WaitFor(ctx context.Context, p *Process, what string, patience time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if failure := p.Failure(); failure != nil {
			return failure
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready in time: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Accepts asks whether somebody listens at an address.
func Accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
