package api

import (
	"time"
)

// Stats is the process at one instant: GET /api/v1/stats. It is exact: each backend's and each queue's numbers were read in one step.
type Stats struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	// Draining: the end of the process has begun: it is not ready. Drain says how far it has come.
	Draining bool   `json:"draining"`
	Drain    *Drain `json:"drain,omitempty"`
	// Problems are what is wrong now, first what hurts clients. Null for a proxy of a version that does not report them.
	Problems []Problem `json:"problems"`
	// Fleet is the proxies that share servers' caps with this one. If it is whole, all numbers are the sums of those of all proxies.
	Fleet *Fleet `json:"fleet,omitempty"`
	// InternalErrors counts panics that ended no more than a session or a connection: bugs in the proxy.
	InternalErrors uint64 `json:"internal_errors"`
	// Shortages say what the process cannot do at present because something is short on its machine, such as file descriptors: accept
	// clients, or dial as many connections as wanted. Absent if nothing is short.
	Shortages []string  `json:"shortages,omitempty"`
	AccessLog AccessLog `json:"access_log"`
	// Disks are the file systems that the proxy writes to: of the state directory, of a database in a file, and of the access log. Absent if there
	// are none, or on systems that do not know.
	Disks []Disk `json:"disks,omitempty"`
	// Replay is the memory for failover; absent if no service has failover: replay.
	Replay *Replay `json:"replay,omitempty"`
	// TLS is how the proxy speaks TLS with clients; absent if no listener does.
	TLS      *TLS      `json:"tls,omitempty"`
	Services []Service `json:"services"`
	Backends []Backend `json:"backends"`
	// Tenants are the tenants of the configuration, and of the others that have sessions or waiting clients up to 100, those with the most.
	Tenants      []Tenant     `json:"tenants,omitempty"`
	OtherTenants OtherTenants `json:"other_tenants,omitzero"`
	// Leaving are backends that were removed and still have connections.
	Leaving []Leaving `json:"leaving,omitempty"`
	// Discovery is how the servers of backends with discover are looked up.
	Discovery     []Discovery   `json:"discovery,omitempty"`
	Configuration Configuration `json:"configuration"`
	Sessions      Sessions      `json:"sessions"`
	// Authentication is about clients of services that authenticate them.
	Authentication Authentication `json:"authentication"`
	// Limits are about clients that have met a limit.
	Limits  Limits  `json:"limits"`
	Relayed Relayed `json:"relayed"`
	Loops   Loops   `json:"loops"`
}

// Drain is how far the end of the process has come. Its times follow from settings that may still change.
type Drain struct {
	Since time.Time `json:"since"`
	// Accepting: clients are still accepted, until Closes. Then the process waits for sessions to finish.
	Accepting bool      `json:"accepting"`
	Closes    time.Time `json:"closes"`
	// Spread is when it begins to end the sessions that are left, one after the other, and Deadline when all of them are ended. Absent
	// if it waits for as long as sessions last.
	Spread   time.Time `json:"spread,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Told     int64     `json:"told"` // sessions that it has ended so far, with code 1001
}

// Disk is a file system that the proxy writes to.
type Disk struct {
	Path  string `json:"path"`  // a directory on it
	Holds string `json:"holds"` // what the proxy has there: state, database, access log, or several of these
	// SizeBytes is how large it is, and FreeBytes how much of it the proxy can still use.
	SizeBytes uint64 `json:"size_bytes"`
	FreeBytes uint64 `json:"free_bytes"`
}

// AccessLog is what became of the lines of the access log, which has one for each session that ended and each client that was refused.
type AccessLog struct {
	Lines   uint64 `json:"lines"`    // written since the start
	LeftOut uint64 `json:"left_out"` // since the file could not be written, or not fast enough
}

// Service is one service in the statistics.
type Service struct {
	Name    string `json:"name"`
	Host    string `json:"host,omitempty"` // empty for any
	Path    string `json:"path"`           // empty for any
	Profile string `json:"profile"`
	Balance string `json:"balance"`
	// Paused: clients wait in the queue until the service is resumed.
	Paused bool  `json:"paused"`
	Queue  Queue `json:"queue"`
	// Utilisation is Fleet.Needs / Fleet.Capacity: (leased + resetting + waiting) / places that take sessions now. Above 1, clients wait. In the
	// statistics of a whole fleet, it is that of the proxy that finds the highest.
	Utilisation float64 `json:"utilisation"`
	// Fleet is what the service's clients need at all proxies that share the servers, as this proxy knows it: each says the same, but for
	// the time that numbers take to get to it.
	Fleet ServiceDemand `json:"fleet"`
	// Condition is how the service is: up, degraded, nearly full, clients wait, queue full, paused or down. Why is the evidence.
	Condition Condition `json:"condition"`
	// Failover is absent if the service has neither failover nor a stall-timeout.
	Failover *ServiceFailover `json:"failover,omitempty"`
	// ReconnectSeconds is how long a session waits for a client whose connection broke; absent for not at all.
	ReconnectSeconds float64 `json:"reconnect_seconds,omitempty"`
	// Affinity is absent if the profile knows no ids that servers give clients.
	Affinity *ServiceAffinity `json:"affinity,omitempty"`
	Used     Usage            `json:"used"` // since the proxy started
}

// ServiceAffinity counts the clients that have said an id that a server of the service may have given them.
type ServiceAffinity struct {
	Hits   uint64 `json:"hits"`   // they came back to that server
	Misses uint64 `json:"misses"` // the proxy does not know the id, or no longer
	Gone   uint64 `json:"gone"`   // that server was gone, full or drained
	IDs    int    `json:"ids"`    // that the proxy remembers
}

// ServiceDemand is what the clients of a service need of its servers.
type ServiceDemand struct {
	Needs int `json:"needs"` // connections that sessions use, and clients that wait
	// Capacity is how many places take sessions now: the caps of the backends that work, or less where a server says that it is full. While
	// the ledger grants no places, Needs and Capacity are those of this proxy. While no backend works, the caps of the enabled ones count.
	Capacity int `json:"capacity"`
	Waiting  int `json:"waiting"`
	// OldestSeconds is how long the first has waited; if it waits at another proxy, rounded down to a power of two.
	OldestSeconds float64 `json:"oldest_seconds"`
}

// Queue is the queue of a service: the clients that wait for a connection.
type Queue struct {
	Limit         int         `json:"limit"`
	Waiting       int         `json:"waiting"`
	OldestSeconds float64     `json:"oldest_seconds"` // how long the first has waited
	Totals        QueueTotals `json:"totals"`
}

// QueueTotals counts clients since the service began.
type QueueTotals struct {
	Queued     uint64 `json:"queued"`      // clients that had to wait
	Served     uint64 `json:"served"`      // of those, clients that got a connection
	TimedOut   uint64 `json:"timed_out"`   // clients that waited without success
	Left       uint64 `json:"left"`        // clients that left before
	TurnedAway uint64 `json:"turned_away"` // clients whose wait the proxy ended: it shut down, the service was removed, or an operator ended the wait
	Refused    uint64 `json:"refused"`     // clients whose server refused what they say in their handshake
	Full       uint64 `json:"full"`        // clients that could not be queued
	Evicted    uint64 `json:"evicted"`     // clients whose place in the full queue a client of another tenant got
	// WaitedSeconds is how long the clients that got a connection have waited for it, in total.
	WaitedSeconds float64 `json:"waited_seconds"`
}

// Backend is one backend in the statistics.
type Backend struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	Profile string `json:"profile"`
	// DiscoveredFrom is the backend of the configuration whose name led to this server; empty for a backend of the configuration.
	DiscoveredFrom string `json:"discovered_from,omitempty"`
	// Calibrated is how many streams 'wsbouncer calibrate' found that the server takes at once; absent if that is not known.
	Calibrated int `json:"calibrated,omitempty"`
	Health
	Pool
	// Condition is how the backend is: what its health, its state and the list of problems say together. The word is that of [Health.Condition], or
	// hung, slow, flapping, full, no place, over-granted, canary doubtful, starting, not usable, no weight, draining or disabled.
	Condition Condition `json:"condition"`
	// Variants are the kinds of connections there are, where a profile knows some. Names of those for one client, or few, begin
	// with ~.
	Variants []Variant `json:"variants,omitempty"`
	// Places says how the server's places are shared among proxies; absent if this proxy shares none.
	Places  *Places `json:"places,omitempty"`
	Retired uint64  `json:"retired"` // connections closed or being closed since the start
	// Published is what the server publishes of its capacity; absent if it publishes nothing, or nothing has been read yet.
	Published *Published `json:"published,omitempty"`

	// Stalls counts sessions on which the backend has stalled, Moved those that left it for another one, and NotMoved those that no other
	// backend could continue.
	Stalls   uint64 `json:"stalls,omitempty"`
	Moved    uint64 `json:"moved_sessions,omitempty"`
	NotMoved uint64 `json:"not_moved_sessions,omitempty"`
	// LagSeconds is the largest LagSeconds of its sessions now, and MedianLagSeconds that of the session in the middle. OwedSeconds is the largest
	// OwedSeconds.
	LagSeconds       float64 `json:"lag_seconds,omitempty"`
	MedianLagSeconds float64 `json:"median_lag_seconds,omitempty"`
	OwedSeconds      float64 `json:"owed_seconds,omitempty"`
	// LatenessSeconds is what lag-limit limits: how late results come, for 95 % of its sessions.
	LatenessSeconds float64 `json:"lateness_seconds,omitempty"`
	// FirstReplySeconds is how long a typical session lately took from its client's first message to the backend's first, and FirstReplies of
	// how many sessions within some minutes that is known; absent if of none.
	FirstReplySeconds float64 `json:"first_reply_seconds,omitempty"`
	FirstReplies      int     `json:"first_replies,omitempty"`
	// AnsweredSessions are those that have had their first reply. Where most have not, FirstReplyOwedSeconds is for how long the median one has
	// been owed; otherwise it is 0. One that is owed counts as soon as it takes longer than those that have come.
	AnsweredSessions      int     `json:"answered_sessions"`
	FirstReplyOwedSeconds float64 `json:"first_reply_owed_seconds,omitempty"`
	// HeardSessions are those that have had their first reply, and lately something else: they wait for nothing.
	HeardSessions int `json:"heard_sessions"`
	// Overdue is what the backend owes for far longer than usual; absent for nothing.
	Overdue *Overdue `json:"overdue,omitempty"`
	// Proxies are the parts of the proxies, in the statistics of a whole fleet.
	Proxies []BackendPart `json:"proxies,omitempty"`
}

// Overdue is what a backend owes its sessions for longer than PatienceSeconds: several times what nearly all first replies took, and at least 8 s.
type Overdue struct {
	// Sessions are surely owed a result. Unreplied have never had a reply though their clients send, and nothing is known of their audio: it may
	// be silence.
	Sessions        int       `json:"sessions"`
	Unreplied       int       `json:"unreplied"`
	LongestSeconds  float64   `json:"longest_seconds"`
	Since           time.Time `json:"since"`
	PatienceSeconds float64   `json:"patience_seconds"`
}

// Places is how the places of a server, one for each connection that its cap allows, are shared among proxies.
type Places struct {
	Grant   int `json:"grant"`   // that this proxy may use
	Granted int `json:"granted"` // that all proxies may use together; more than Cap after a cap was lowered, until sessions have ended
	Cap     int `json:"cap"`     // that the server has: the least of the caps that the proxies' configurations say
	Needs   int `json:"needs"`   // that sessions of all proxies use, and clients wait for
	// Others are the other proxies that have some, the one with most first.
	Others []PlaceHolder `json:"others"`
}

// Published is what a server publishes of its capacity, as of the last good reading.
type Published struct {
	Total int  `json:"total,omitempty"` // sessions that it takes at once; absent if it does not publish that
	Used  *int `json:"used,omitempty"`  // sessions that it has; absent if it does not publish that
	// Strangers is how many of Used are neither this proxy's nor those of others that share the server's places.
	Strangers int       `json:"strangers,omitempty"`
	At        time.Time `json:"at,omitzero"` // of the reading; absent before the first
	// Followed: the backend has connections: auto, so that the ceiling is the total without strangers.
	Followed bool      `json:"followed,omitempty"`
	Reason   string    `json:"reason,omitempty"` // why nothing could be read since
	Since    time.Time `json:"since,omitzero"`   // when that began
}

// PlaceHolder is a proxy that has places of a server.
type PlaceHolder struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Places int    `json:"places"`
	Needs  int    `json:"needs"` // of them, those that its sessions use or its clients wait for
}

// Health is a backend's health. The times are those of the last change.
type Health struct {
	// Reachable reports whether the last connection could be established and was not lost at once.
	Reachable bool      `json:"reachable"`
	Since     time.Time `json:"since"`
	Reason    string    `json:"reason,omitempty"` // why it is not reachable

	// Circuit is the state of the circuit: closed, half-open or open.
	Circuit       string    `json:"circuit"`
	CircuitSince  time.Time `json:"circuit_since"`
	CircuitReason string    `json:"circuit_reason,omitempty"`
	CircuitOpened uint64    `json:"circuit_opened"` // how often

	// Probe is the verdict of the active probe: off, unknown, up or down.
	Probe       string    `json:"probe"`
	ProbeSince  time.Time `json:"probe_since,omitzero"`
	ProbeReason string    `json:"probe_reason,omitempty"`

	// Canary is the verdict of the canary: off, unknown, up, down, or doubtful if it fails and has not passed on any backend of the service.
	Canary       string    `json:"canary"`
	CanarySince  time.Time `json:"canary_since,omitzero"`
	CanaryReason string    `json:"canary_reason,omitempty"` // why it is down or doubtful, or why it could not be played
	// CanarySeconds is how long the first result of the last canary took; 0 before the first.
	CanarySeconds float64 `json:"canary_seconds"`

	// Outlier: the backend gets no sessions for a while, since far more fail on it than on its peers.
	Outlier       bool      `json:"outlier"`
	OutlierSince  time.Time `json:"outlier_since,omitzero"`
	OutlierReason string    `json:"outlier_reason,omitempty"`
	Outliers      uint64    `json:"outlier_times"` // how often

	// Stalled: the backend gets no sessions but trials, since sessions on it have stalled.
	Stalled       bool      `json:"stalled"`
	StalledSince  time.Time `json:"stalled_since,omitzero"`
	StalledReason string    `json:"stalled_reason,omitempty"`

	// Broken is how many sessions the backend has broken since the start.
	Broken uint64 `json:"broken_sessions"`
	// RoundTripSeconds is a moving average of the time between pings and their pongs; 0 before the first.
	RoundTripSeconds float64 `json:"round_trip_seconds"`
	// FullAt is how many connections the server had when it said last that it is full; 0 once it may have as many as its cap again.
	FullAt int `json:"full_at,omitempty"`
	// CeilingCause is what limits connections below the cap: full (the server said so), lag (its results come later than lag-limit) or published (connections: auto); empty for
	// nothing. CeilingReason says more about it.
	CeilingCause  string    `json:"ceiling_cause,omitempty"`
	CeilingSince  time.Time `json:"ceiling_since,omitzero"`
	CeilingReason string    `json:"ceiling_reason,omitempty"`
}

// Pool is a backend's connections.
type Pool struct {
	State     string  `json:"state"`  // the desired state: enabled, draining or disabled
	Usable    bool    `json:"usable"` // sessions may begin as far as the server is concerned: see TakesSessions
	Cap       int     `json:"cap"`
	Ceiling   int     `json:"ceiling"` // how many connections the server gets at present: the cap, or less while there is a CeilingCause
	Limit     int     `json:"limit"`   // how many this proxy may have: the ceiling, or less if it was granted fewer places
	Warm      int     `json:"warm"`
	Weight    float64 `json:"weight"`
	Ramp      float64 `json:"ramp"` // part of the weight that counts, while the backend is started slowly
	Dialing   int     `json:"dialing"`
	Idle      int     `json:"idle"`
	Leased    int     `json:"leased"`
	Resetting int     `json:"resetting"`
	Retiring  int     `json:"retiring"`
	Totals    Totals  `json:"totals"`
}

// MostConnections returns how many connections this proxy may have to the backend at present.
func (b *Backend) MostConnections() int {
	if b.Places == nil { // then Limit is the ceiling, and older proxies do not report it
		return b.Ceiling
	}
	return b.Limit
}

// Untried reports whether the proxy has never dialed the server because it has no place there, so that it cannot know whether that works.
func (b *Backend) Untried() bool {
	return !b.Reachable && b.Places != nil && b.Places.Grant == 0 && b.Totals.Dialed == 0 && b.Totals.DialFailed == 0
}

// Used returns how many connections count against the cap.
func (p *Pool) Used() int { return p.Dialing + p.Idle + p.Leased + p.Resetting + p.Retiring }

// Totals counts a backend's connections and leases since it began.
type Totals struct {
	Dialed      uint64 `json:"dialed"`       // connections established
	DialFailed  uint64 `json:"dial_failed"`  // dials that failed
	Refused     uint64 `json:"refused"`      // dials for one client that the server refused because of that client's values
	Leased      uint64 `json:"leased"`       // leases begun
	Returned    uint64 `json:"returned"`     // leases that ended with the connection idle again
	Discarded   uint64 `json:"discarded"`    // leases that ended with the connection retired
	RetiredIdle uint64 `json:"retired_idle"` // connections retired while idle
	// Reasons counts the retired connections by reason, such as served, aged or lost. Reasons that did not occur are missing.
	Reasons map[string]uint64 `json:"reasons"`
}

// Variant is the connections of one kind at one instant.
type Variant struct {
	Variant  string `json:"variant"`
	Warm     int    `json:"warm"` // idle connections kept ready
	Dialing  int    `json:"dialing"`
	Idle     int    `json:"idle"`
	Outdated int    `json:"outdated,omitempty"` // idle ones that are to be replaced
	Total    int    `json:"total"`              // in any state
}

// Leaving is a backend that was removed from its service, while it still has connections.
type Leaving struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	// Leased, Resetting and Retiring are its connections that serve a session, are made clean after one, or are being closed.
	Leased    int `json:"leased"`
	Resetting int `json:"resetting"`
	Retiring  int `json:"retiring"`
}

// Configuration is which configuration is in force, and how good it is.
type Configuration struct {
	Source  string    `json:"source"`
	Version string    `json:"version"` // of the snapshot in force
	State   string    `json:"state"`   // current, stale (the source fails) or copied (it has failed since the start)
	Since   time.Time `json:"since"`   // of the state
	Reason  string    `json:"reason,omitempty"`
	Applied time.Time `json:"applied"` // when the snapshot came into force
	Changes uint64    `json:"changes"` // snapshots that came into force since the start
	Failed  uint64    `json:"failures"`
	// Unsaved is why the copy of it on disk, for a start without the source, could not be written since UnsavedSince; empty if it could.
	Unsaved      string    `json:"unsaved,omitempty"`
	UnsavedSince time.Time `json:"unsaved_since,omitzero"`
}

// Sessions is what became of clients.
type Sessions struct {
	Active  int64             `json:"active"`  // sessions whose client is still connected
	Total   uint64            `json:"total"`   // sessions begun since the start
	Refused map[int]uint64    `json:"refused"` // requests refused, by HTTP status
	Ended   map[uint16]uint64 `json:"ended"`   // sessions ended, by the client's close code
	// Handshakes is what became of clients before they had a session or waited in a queue.
	Handshakes Handshakes `json:"handshakes"`
	// Reconnects is what became of clients whose connection broke, of services with reconnect.
	Reconnects Reconnects `json:"reconnects"`
}

// Reconnects is what became of clients whose connection broke. All but Parked and Forwarding count since the start.
type Reconnects struct {
	Parked     int    `json:"parked"`     // sessions that wait for their client now
	Lost       uint64 `json:"lost"`       // connections that broke, so that a session waited
	Resumed    uint64 `json:"resumed"`    // clients that came back
	Expired    uint64 `json:"expired"`    // sessions whose client did not come back in time, or that had to make room
	Refused    uint64 `json:"refused"`    // clients whose token was good for nothing
	Forwarding int    `json:"forwarding"` // clients now that reach their session at another proxy through this one
	Forwarded  uint64 `json:"forwarded"`  // such clients
	Redirected uint64 `json:"redirected"` // clients that were told to go to the proxy that has their session
}

// Handshakes is the clients whose TLS handshake or upgrade request is not complete, and those that have just been refused.
type Handshakes struct {
	Unfinished int `json:"unfinished"`
	// Limit is how many may be unfinished: max-handshakes, or less if the process may not open many files.
	Limit int `json:"limit"`
	// Dropped counts those that were dropped to make room for others, by reason: oldest (of all), address (the oldest from a network that
	// had most, or as many as it may) and descriptors (the oldest of all, when no file descriptor was free).
	Dropped map[string]uint64 `json:"dropped"`
}

// Relayed counts data frames and their payload in bytes since the start.
type Relayed struct {
	FramesFromClients  uint64 `json:"frames_from_clients"`
	BytesFromClients   uint64 `json:"bytes_from_clients"`
	FramesFromBackends uint64 `json:"frames_from_backends"`
	BytesFromBackends  uint64 `json:"bytes_from_backends"`
}

// Loops is the event loops.
type Loops struct {
	Awake int    `json:"awake"`
	Moved uint64 `json:"moved"` // sessions and idle connections moved between loops since the start
	Loops []Loop `json:"loops"`
}

// Loop is one event loop.
type Loop struct {
	ID          int     `json:"id"`
	Awake       bool    `json:"awake"`
	Connections int64   `json:"connections"`
	Busy        float64 `json:"busy"` // the share of a processor, from 0 to 1, that it used over the last interval
}

// Limits are what limits did to clients.
type Limits struct {
	HeldBack int64          `json:"held_back"` // sessions whose clients are not read at present, since they send too much
	Totals   []LimitTotal   `json:"totals"`    // since the start
	Lately   []LimitReached `json:"lately"`    // within the last minute or two; 100 are named at most
}

// LimitTotal is how often limits of one kind were reached: clients were refused, or sessions held back or ended.
type LimitTotal struct {
	Limit string `json:"limit"` // session-limit, session-rate, message-rate, byte-rate, max-message, max-session, idle-timeout, audio-idle
	Scope string `json:"scope"` // process, service, client, key, tenant
	Count uint64 `json:"count"`
}

// LimitReached is a limit that is being reached, at least once a minute, and how often it was since then.
type LimitReached struct {
	LimitTotal
	// Name is that of the service, the tenant or the key, or the client's address; empty for the process, and for those that are too many
	// to name.
	Name  string    `json:"name,omitempty"`
	Since time.Time `json:"since"`
}

// HeldBack says why a session's client is not read: it sends more than it may.
type HeldBack struct {
	Limit string    `json:"limit"` // such as "byte-rate 64KiB/s of tenant acme"
	Since time.Time `json:"since"`
}

// Authentication is what became of clients that had to authenticate, since the start.
type Authentication struct {
	Results []AuthResult `json:"results"`
	// Blocked counts clients that got 429 because authentication had failed too often from their address, and Suspects how many addresses
	// that concerns now: failed-auth-rate is the limit.
	Blocked  uint64 `json:"blocked"`
	Suspects int    `json:"suspects"`
}

// AuthResult is how often one method had one result.
type AuthResult struct {
	Method string `json:"method"` // keys, jwt, certificate, external, or none: no method of the service could judge what the client gave
	Result string `json:"result"` // accepted, refused, or failed: the method does not work
	Count  uint64 `json:"count"`
}

// TLS is how the proxy speaks TLS with clients, and which certificates it presents.
type TLS struct {
	Certificates []Certificate `json:"certificates"` // in force
	Loaded       time.Time     `json:"loaded"`       // when certificates were read last that had changed
	// Failure is what is wrong with the files of certificates, keys and authorities, so that what was read before stays in force. Absent if
	// nothing is wrong.
	Failure      string          `json:"failure,omitempty"`
	FailureSince time.Time       `json:"failure_since,omitzero"`
	Handshakes   []TLSHandshakes `json:"handshakes"` // of clients since the start
}

// IssuedPrefix stands before the name in the File of a certificate that an authority issues by ACME.
const IssuedPrefix = "tls-auto:"

// ListenerAdmin is the Listener of the certificate of the admin API.
const ListenerAdmin = "admin API"

// Certificate is a certificate that the proxy presents.
type Certificate struct {
	File string `json:"file"` // tls-auto:NAME for one that an authority issues by ACME
	// Listener is ListenerAdmin for what the admin API presents. Absent for what clients see.
	Listener  string    `json:"listener,omitempty"`
	Names     []string  `json:"names"` // names and IP addresses that it is for
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	State     string    `json:"state"` // valid, expiring (in less than 14 days, or a third of its life), expired, not-yet-valid, or missing: the authority has issued none yet
	// Failure is why the last attempt to get or renew it from the authority failed. Absent if it did not.
	Failure string `json:"failure,omitempty"`
}

// The states of a certificate.
const (
	CertificateValid    = "valid"
	CertificateExpiring = "expiring"
	CertificateExpired  = "expired"
	CertificateNotYet   = "not-yet-valid"
	CertificateMissing  = "missing"
)

// TLSHandshakes is how many TLS handshakes had a result.
type TLSHandshakes struct {
	// Result is full or resumed if it succeeded; otherwise not-tls, timeout, left, version, parameters, certificate, refused-by-client or broken.
	Result  string `json:"result"`
	Version string `json:"version"` // 1.2 or 1.3; none if it failed before the version was agreed on
	Count   uint64 `json:"count"`
}
