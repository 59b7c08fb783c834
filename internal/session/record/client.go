package record

import (
	"crypto/sha256"
	"hash/maphash"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Client is what is known of a client that has no session yet, and what its session begins with. The goroutine of its handshake owns it; once a
// connection is leased for it, it is immutable.
type Client struct {
	ID   ID
	Path string // that it asks for, without the query: printable and of bounded length
	// RequestID is the client's X-Request-Id; empty for none that is valid.
	RequestID string
	Arrived   time.Time // when its connection was accepted
	Address   origin.Address
	Peer      *origin.Address // that its connection comes from, if that is not Address; nil otherwise
	Asked     time.Time       // when its request had been read
	Position  int             // in the queue when it began to wait; 0 if it did not wait
	Until     time.Time       // when its wait times out; zero if it did not wait
	Key       uint64          // hash that chooses its backend
	Variant   string          // variant of the connection that it needs
	SaysID    bool            // its request has an id that a server may have given it
	Named     *route.Named    // that id; nil if it is not known
	Trace     *Trace          // nil for none
	// Identity is who the client is, if its service authenticates clients; nil for none. It is set also if the client is known and refused.
	Identity *identity.Identity
	// CredentialHash tells clients apart whose identities do not, since they name neither a subject nor a key; zero for others.
	CredentialHash [sha256.Size]byte

	Question string       // to ask once more about the client later; empty for none. It has secrets
	Grant    string       // subprotocol to grant if the client offers none that the server has chosen; empty for none
	Hold     *limits.Hold // its places in what is limited; nil before they are taken
	LimitsAt uint64       // the generation of limits at which they were taken
	Accepted bool         // it has its 101, since it was told its place in the queue
	Resume   string       // token to come back with; empty for a client that cannot
	Messages bool         // it gets messages in place of header fields about coming back
	Told     int          // messages that it was sent while it waited
	// AudioLeft is how many seconds of audio its quota leaves when it arrives; empty for no quota.
	AudioLeft string
}

// AudioLeftHeader is the field of the answer to an upgrade request that has how many seconds of audio the client's quota leaves.
const AudioLeftHeader = "X-Wsbouncer-Audio-Left"

// ResumeHeader is the field, of an answer and of the next request, that has the token with which a client comes back to its session.
const ResumeHeader = "Wsbouncer-Resume"

// AcceptFields returns the fields of the answer that accepts the client.
func (c *Client) AcceptFields() []handshake.Field {
	fields := []handshake.Field{{Name: IDHeader, Value: c.ID.String()}}
	if c.Resume != "" {
		fields = append(fields, handshake.Field{Name: ResumeHeader, Value: c.Resume})
	}
	if c.AudioLeft != "" {
		fields = append(fields, handshake.Field{Name: AudioLeftHeader, Value: c.AudioLeft})
	}
	return fields
}

// Waiting is a client that waits for its first connection, or has one and no session yet. It is static.
type Waiting struct {
	Client  Client
	Service *route.Service
	Ticket  uint64      // tells the order in the service's queue
	Killed  chan string // of size one: why an operator ends its wait
	// Tell tells the client its place in the queue, and how many seconds it waits there (-1 if unknown). It never blocks. nil for a client
	// that is told nothing.
	Tell func(number, wait int)
}

// NewWaiting returns an entry for a client that waits in a queue.
func NewWaiting(client *Client, service *route.Service, ticket uint64) *Waiting {
	return &Waiting{Client: *client, Service: service, Ticket: ticket, Killed: make(chan string, 1)}
}

// Kill ends the client's wait for that reason. It returns false if that was done before.
func (w *Waiting) Kill(reason string) bool {
	select {
	case w.Killed <- reason:
		return true
	default:
		return false
	}
}

// TenantOf returns the tenant of a client; empty for none.
func TenantOf(who *identity.Identity) string {
	if who == nil {
		return ""
	}
	return who.Tenant
}

// credentialSeed makes what stands for credentials impossible to guess.
var credentialSeed = maphash.MakeSeed()

// Voter returns whom the health of servers takes a client for.
func Voter(at origin.Address, who *identity.Identity) backend.Client {
	client := backend.Client{Address: at.Addr()}
	if who != nil {
		name := who.Key
		if name == "" {
			name = who.Subject
		}
		client.Credential = maphash.Comparable(credentialSeed, [...]string{who.Method, who.Tenant, name})
	}
	return client
}

// PlacesOf returns the place of each waiting client in its service's queue.
func PlacesOf(clients []*Waiting) map[*Waiting]int {
	if len(clients) == 0 {
		return nil
	}
	queues := make(map[*pool.Group[*backend.Conn]][]*Waiting)
	for _, w := range clients {
		queues[w.Service.Group] = append(queues[w.Service.Group], w)
	}
	places := make(map[*Waiting]int, len(clients))
	for group, waiting := range queues {
		queued := make([]pool.Client, len(waiting))
		for i, w := range waiting {
			queued[i] = pool.Client{Tenant: TenantOf(w.Client.Identity), Ticket: w.Ticket}
		}
		for i, place := range group.Standings().Places(queued) {
			places[waiting[i]] = place
		}
	}
	return places
}
