// Package wire is the storey of bytes on sockets: frames, opening handshakes, event loops, TLS, addresses. Every storey above imports it. It
// knows nothing of what messages mean.
package wire
