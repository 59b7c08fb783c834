package pgtest

import (
	"bytes"
	"context"
	"net"
)

// DialPooled connects as through a connection pooler, which names a process to the client that is none of the server's. It is for
// pgconn.Config.DialFunc.
func DialPooled(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &pooled{c}, nil
}

type pooled struct{ net.Conn }

func (c *pooled) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	keyData := []byte{'K', 0, 0, 0, 12} // BackendKeyData: the process and a secret
	if i := bytes.Index(p[:n], keyData); i >= 0 {
		p[i+len(keyData)+3]++
	}
	return n, err
}
