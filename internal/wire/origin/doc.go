// Package origin says where a client comes from when load balancers stand between it and the proxy. It believes what a connection
// says of its client only if the connection comes from a trusted network:
//
//  1. The source of a connection is its peer's address. If PROXY protocol is accepted and the peer is trusted, the source is the address
//     that the PROXY header states. A header without one (LOCAL, UNKNOWN: a load balancer's own health check) leaves it as it is.
//  2. If the source is trusted, the header of its request is read (X-Forwarded-For or Forwarded): a list to whose end each load balancer
//     appends the address that it was reached from. The list is read from its end. Trusted addresses are passed over; the first that
//     is not trusted is the client. If all are trusted, the first of the list is the client.
//  3. An entry that is no address (garbage, unknown, a hidden identifier), or the end of what is read (maxHops), ends the search: the
//     client is then the last address that was believed, which is the load balancer that wrote this entry.
//
// So a client can write into the list what it likes: the search ends at the address from which the first trusted load balancer was
// reached. nginx (real_ip_recursive on), Envoy's list of trusted networks and Traefik (trustedIPs) read it in the same way; a count of
// trusted hops, which Envoy has as well, believes a client that comes by a shorter way.
//
// The package does no I/O but that of the reader that [ReadProxyHeader] is given, and any goroutine may use it.
package origin
