package chaos

import (
	"context"
	"net"
	"time"
)

// flood uses up a proxy's file descriptors with idle connections for two of every four seconds, until ctx ends.
func (r *run) flood(ctx context.Context, p *proxy) {
	var dialer net.Dialer
	for wait(ctx, 2*time.Second) == nil {
		r.ledger.event("%s: %d silent connections", p.name, p.machine.flood)
		var conns []net.Conn
		for range p.machine.flood {
			conn, err := dialer.DialContext(ctx, "tcp", p.address)
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		_ = wait(ctx, 2*time.Second)
		for _, conn := range conns {
			_ = conn.Close()
		}
		r.ledger.event("%s: closed the silent connections", p.name)
	}
}
