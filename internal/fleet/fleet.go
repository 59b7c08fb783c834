package fleet

import (
	"context"
	"errors"
	"time"
)

// ID identifies one process: 16 hexadecimal digits, random at each start. A proxy that restarts, or its successor in an upgrade, is
// another process.
type ID string

// Epoch is a random text for one life of the ledger; empty for none yet.
type Epoch string

// Instant is a time of the machine's clock that never jumps and counts while the machine sleeps, since any point.
type Instant time.Duration

// Lease is how long all proxies get, after a new epoch has begun, to say what they hold.
const Lease = 5 * time.Second

// State is what a proxy does.
type State string

// The states of a proxy.
const (
	Starting State = "starting" // it does not accept clients yet
	Serving  State = "serving"
	Draining State = "draining" // it no longer accepts clients; its sessions continue
)

// Member is what proxies know of one of them.
type Member struct {
	ID       ID
	Name     string // for people; two may have the same by mistake
	Version  string // of the program
	Schema   int64  // the newest schema of the database that the program knows
	Address  string // URL of its admin API as other proxies reach it; empty if they cannot
	Host     string // identifies the host, and the network namespace on it; addresses on loopback mean the same process only within it
	Process  string // its part in the ids and tokens of its sessions
	Instance string // identifies the state directory; processes with the same one prove each other's end by a lock
	Started  time.Time
	State    State
	Sessions int
	Config   string // version of the configuration in force
	// Seen is the store's time of the last exchange; for people only, since clocks jump. Heartbeats counts exchanges; observers judge by it.
	Seen       time.Time
	Heartbeats uint64
	// Epoch is the last one in which it has said what it holds.
	Epoch Epoch
	// Sequence is that of its last report.
	Sequence uint64
}

// Claim is what one proxy says about one server. All numbers are of connections, which are places.
type Claim struct {
	// Cap is that of its configuration, or less as the server publishes. A proxy that drains claims the negative of it, and one that no longer has the
	// server 0: both take no more places than they need. Programs that know of no negative caps take them for 0.
	Cap int
	// Holds is the most that it may have at this moment and until it gets an answer: its limit, or what it still uses if that is more.
	Holds int
	Needs int // what sessions use, and what clients wait for
	// Waiting is how many of Needs are for clients that wait: for statistics only, so that each proxy can tell the fleet's.
	Waiting int
	Wants   int // Needs, and what it would like to keep warm for clients to come
	// Waited is how many seconds its longest waiting client has waited, rounded down to a power of two; it decides between equals.
	Waited int
	Floor  int     // places that are kept for the proxy even if it does not need them
	Share  float64 // its weight when places are short; 0 counts as 1
	// Open is how many connections it had when it last read what the server publishes of its capacity, so that others can tell them from
	// strangers'; 0 where that is not followed.
	Open int
}

// Grant is what the ledger has for one proxy at one server.
type Grant struct {
	Proxy  ID
	Places int
	Claim  Claim
}

// Account is what the ledger has of one server.
type Account struct {
	Server string // as config.ServerOf
	// Version is the ledger's version when the account last changed so that others must know: a proxy is or was short of places, few
	// are left in reserve, many became free, more are granted than there are, or the cap is another.
	Version int64
	Grants  []Grant
}

// Report is what a proxy says in an exchange.
type Report struct {
	ID       ID
	Sequence uint64 // higher than that of each report before
	Epoch    Epoch  // the last one that the proxy has heard of; empty if it has never had an answer
	Version  int64  // the ledger's version that the last answer had which brought accounts
	// Settle says that the proxy has watched the epoch for a lease time.
	Settle bool
	// Full: Claims has all servers at which the proxy holds or wants something. Otherwise it has those that have changed.
	Full   bool
	Claims map[string]Claim // by server; the zero Claim gives up everything there
	// Others are the other proxies that this one knew before the epoch began, if the ledger has asked for them with [Answer.Lost].
	Others []Member
	Unseen []ID    // proxies that this one suspects; no free places are kept for them
	Dead   []Death // proxies whose places are to be free
	Leaves bool    // the proxy ends: it has no connections left
	About  Member  // what it says of itself; ID, Seen, Heartbeats, Epoch and Sequence are the store's business
}

// Quiet reports whether the report changes nothing but what its proxy says of itself, its heartbeats and its sequence number, as long as the
// ledger's epoch and version are the report's and its proxy is a member that has said in this epoch what it holds. A store may then answer
// with epoch, version, frozen, settled and members alone.
func (r *Report) Quiet() bool {
	return !r.Settle && !r.Full && !r.Leaves && len(r.Claims) == 0 && len(r.Dead) == 0 && len(r.Others) == 0
}

// All reports whether an exchange needs all accounts, rather than those that the report names or that have changed since its version. If
// the report's epoch or the database's identity is not the ledger's, it needs none.
func (r *Report) All() bool { return r.Full || r.Leaves || len(r.Dead) > 0 }

// Death says that a proxy is to be taken for dead.
type Death struct {
	ID ID
	// Proven: its process has ended. Otherwise its grant time-out has passed, which holds only if it has made no exchange after Heartbeats.
	Proven     bool
	Heartbeats uint64
}

// Answer is what a proxy learns in an exchange.
type Answer struct {
	Epoch   Epoch
	Version int64
	// Frozen: nothing is granted or reclaimed, since not all proxies have said in this epoch what they hold, or the epoch is not settled.
	// Missing are those that have not.
	Frozen  bool
	Settled bool
	Missing []ID
	// Again: the ledger does not know in this epoch what this proxy holds, so the next report must be full. Forgotten: it was taken for
	// dead, and its places may be others' by now. Lost: the proxy has seen more of the ledger than there still is, so the next report must
	// also name the others that it knew.
	Again, Forgotten, Lost bool
	// Stale: a later report has arrived before this one, which changed nothing.
	Stale    bool
	Accounts []Account // those that the report names or that have changed since its version; all for a full report
	// Members are all proxies. A store may leave them out (nil) if the version is the report's and all have been seen lately.
	Members []Member
}

// Store keeps a ledger. Its methods may be called from any goroutine.
type Store interface {
	// Exchange carries out an exchange as one transaction. An exchange in which nothing changes must be cheap: one statement.
	Exchange(ctx context.Context, r *Report) (*Answer, error)
	// Ledger returns the whole ledger. It must not be changed.
	Ledger(ctx context.Context) (*Ledger, error)
	// Forget removes a proxy that an operator declares dead. It returns [ErrUnknown] if there is none. If the database is another process than the
	// one of the last exchange, a new epoch begins first.
	Forget(ctx context.Context, id ID) error
	// Changed returns a channel of size one that receives a value when another proxy has changed something, so that an exchange is worth
	// making before the next heartbeat. It may never receive anything. It is closed when ctx ends.
	Changed(ctx context.Context) <-chan struct{}
	// Notifies reports whether a channel of Changed receives a value, as things are, soon after each change that concerns the proxy. It does not
	// wait.
	Notifies() bool
	// Close releases the store's resources. It removes no proxy from the ledger.
	Close() error
}

var (
	// ErrUnknown says that the ledger has no such proxy.
	ErrUnknown = errors.New("no such proxy")
	// ErrNoTables says that the database has no tables for the ledger: it was not migrated.
	ErrNoTables = errors.New("the database has no tables for grants")
	// ErrNoRights says that the database's user may not write the ledger.
	ErrNoRights = errors.New("the database's user may not write grants")
	// ErrDisk says that the store's file can be neither read nor written: the disk is full or read-only, or has failed.
	ErrDisk = errors.New("the disk with the file of grants is full, read-only or fails")
	// ErrUnreachable says that the store cannot be reached.
	ErrUnreachable = errors.New("the database of grants cannot be reached")
	// ErrNetworkFile says that the store's file is on a network file system, where locks cannot be trusted.
	ErrNetworkFile = errors.New("the file of grants is on a network file system")
)
