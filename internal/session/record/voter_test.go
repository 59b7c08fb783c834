package record

import (
	"net/netip"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// The health of servers tells clients apart by their address and credential, of which it does not know what it is.
func TestVoter(t *testing.T) {
	at := origin.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:5000")}
	voter := func(who *identity.Identity) backend.Client { return Voter(at, who) }
	if unknown := voter(nil); unknown != (backend.Client{Address: at.Addr()}) {
		t.Errorf("a client without a credential is %+v", unknown)
	}
	found := make(map[uint64]bool)
	all := []identity.Identity{
		{Method: identity.MethodKeys, Tenant: "a", Key: "phone"},
		{Method: identity.MethodKeys, Tenant: "b", Key: "phone"},
		{Method: identity.MethodKeys, Tenant: "a", Key: "tablet"},
		{Method: identity.MethodJWT, Tenant: "a", Subject: "phone"},
		{Method: identity.MethodExternal, Tenant: "a"},
	}
	for _, who := range all {
		again := who
		if voter(&who) != voter(&again) || voter(&who).Credential == 0 {
			t.Errorf("%+v is not known again", who)
		}
		found[voter(&who).Credential] = true
	}
	if len(found) != len(all) {
		t.Errorf("%d of %d credentials can be told apart", len(found), len(all))
	}
}
