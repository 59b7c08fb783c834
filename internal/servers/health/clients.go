package health

import (
	"net/netip"
	"slices"
)

// What a server's failures say is learned from many clients: whatever one of them does, it has one vote. A client is known by its network and
// by its credential, and two sessions count twice only if both differ.

// The networks that count as one client. A client with one address of an IPv6 network of 48 bits may have them all: it is the largest that one
// site is given (RFC 6177). An IPv4 network of 24 bits is the smallest that is routed by itself, so neighbours in it are often one customer's.
// Where honest clients share such a network, they only share a vote: a server that serves none of them needs no votes to be taken out of
// service.
const (
	ipv4Network = 24
	ipv6Network = 48
)

// Client is whose session it was.
type Client struct {
	Address    netip.Addr // zero if it is not known
	Credential uint64     // the same for the same credential; 0 for none
}

// unknown reports whether nothing is known of the client.
func (c Client) unknown() bool { return !c.Address.IsValid() && c.Credential == 0 }

// network returns the network that the client's address belongs to; the zero value if the address is not known.
func (c Client) network() netip.Prefix {
	a := c.Address.Unmap().WithZone("")
	bits := ipv6Network
	if a.Is4() {
		bits = ipv4Network
	}
	p, _ := a.Prefix(bits)
	return p
}

// clientele is what is known of the clients whose sessions a server has had: whether networks and credentials tell them apart. Behind a load
// balancer that does not say where clients come from, all have one network.
type clientele struct {
	networks    seen[netip.Prefix]
	credentials seen[uint64]
}

// seen tells one value from several.
type seen[T comparable] struct {
	first   T
	any     bool
	several bool
}

func (s *seen[T]) see(v T) {
	switch {
	case !s.any:
		s.first, s.any = v, true
	case v != s.first:
		s.several = true
	}
}

func (c *clientele) see(client Client) {
	if client.unknown() {
		return
	}
	c.networks.see(client.network())
	c.credentials.see(client.Credential)
}

// several reports whether there was more than one client.
func (c *clientele) several() bool { return c.networks.several || c.credentials.several }

// same reports whether two sessions may be those of one client: if they have the same network or the same credential, where there are several
// of these. Clients of which nothing is known are taken for different ones.
func (c *clientele) same(a, b Client) bool {
	sameNetwork, sameCredential := a.network() == b.network(), a.Credential == b.Credential
	switch {
	case a.unknown() || b.unknown():
		return false
	case sameNetwork && c.networks.several, sameCredential && a.Credential != 0 && c.credentials.several:
		return true
	}
	return sameNetwork && sameCredential
}

// maxVotes bounds how many votes are remembered.
const maxVotes = 128

// votes are the clients whose sessions have failed lately, each once. The one who voted longest ago is the first.
type votes []vote

type vote struct {
	client Client
	at     Instant // the last time
}

// add counts a vote of the client, whose former one, if there is any, counts no more.
func (v *votes) add(c *clientele, client Client, now Instant) {
	list := (*v)[:0]
	for _, other := range *v {
		if !c.same(other.client, client) {
			list = append(list, other)
		}
	}
	if len(list) == maxVotes {
		list = append(list[:0], list[1:]...)
	}
	*v = append(list, vote{client, now})
}

// only reports whether no other client has voted within refusedWithin, while there are others.
func (v votes) only(c *clientele, client Client, now Instant) bool {
	then := now - Instant(refusedWithin)
	return c.several() && !slices.ContainsFunc(v, func(vote vote) bool { return vote.at >= then && !c.same(vote.client, client) })
}

// since returns how many clients have voted from then on.
func (v votes) since(then Instant) (n int) {
	for _, vote := range v {
		if vote.at >= then {
			n++
		}
	}
	return n
}
