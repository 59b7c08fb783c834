package chaos

import (
	"context"
	"net"
	"time"
)

// flood takes a proxy's descriptors with idle connections for some seconds, and gives them back for some.
func (r *run) flood(ctx context.Context, p *proxy) {
	var dialer net.Dialer
	for wait(ctx, 2*time.Second) == nil {
		r.ledger.event("%s: %d connections that say nothing", p.name, p.machine.flood)
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
		r.ledger.event("%s: they are gone", p.name)
	}
}
