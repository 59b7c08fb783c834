package session

import (
	"net"
	"net/netip"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Session is one client's time with the proxy. All of it is owned by the loop that both connections live on.
type Session struct {
	server  *Server
	service *Service

	// What every frame needs.
	shard   *shard // of the present loop
	phase   phase
	deaf    bool // what the client sends is not looked at any more
	client  *loop.Conn
	backend *backend.Conn
	up      direction     // from the client to the backend
	down    direction     // from the backend to the client
	scanner frame.Scanner // of what the client sends; the backend's is its connection's own

	fromClient backend.Inspector // presents to the boundary what is inspected of what the client sends
	// heldBack: the boundary lets no more of the client's messages through for now, so that the client is not read.
	heldBack bool
	// concluding: the client has sent its last message, in whose place the reset was sent; its last answer is awaited.
	concluding bool

	timer      loop.Timer // bounds the present phase, or looks for idleness
	deadline   loop.Timer // ends a session that lasts too long
	lastCount  uint64     // data frames and their bytes, both ways, at the last look for idleness
	quietLooks int        // looks in a row without any

	keptAtEnding    int    // bytes that the backend had not taken when the client's end was seen
	scannedAtEnding uint64 // bytes of the client's that were scanned then

	messagesBefore            uint64 // what the client's scanner had counted when the lease began
	framesBefore, bytesBefore uint64 // what the backend's scanner had counted then

	key     uint64          // what its backend is chosen by
	variant string          // of the connections that can serve it
	seek    *search         // for another connection; nil for none
	first   profile.Opening // the client's first message, which is to be sent once the boundary lets it
	moves   int             // connections that could not serve it

	sent    sent   // set when the session ends
	fault   string // how the backend broke the session; empty if it did not
	refused bool   // the backend would not serve it, since it is full
	record  Record
}

// phase is how far a session has come.
type phase uint8

const (
	// relaying: frames pass both ways.
	relaying phase = iota
	// clientLeaving: the client has ended its part; what the backend has left to say still passes.
	clientLeaving
	// finishing: the end is decided; the frame that is on its way to the client is completed before the close frame.
	finishing
	// seeking: the session has no connection: the first one could not serve it, and another is looked for.
	seeking
	// lingering: the lease is over and the client has its close frame; its own is awaited, and what else it sends is
	// dropped.
	lingering
)

// newSession returns the session of a client for whom a connection was leased. It runs on the connection's loop.
func (s *Server) newSession(service *Service, conn *backend.Conn, nc net.Conn, arrival arrival) *Session {
	session := &Session{server: s, service: service, backend: conn, key: arrival.key, variant: arrival.variant, scanner: frame.NewClientScanner(service.MaxMessage)}
	session.record.begin(s.lastID.Add(1), addressOf(nc), arrival)
	return session
}

// begin accepts the client's upgrade and starts relaying.
func (s *Session) begin(socket loop.Socket, req *handshake.Request) {
	l := s.backend.Stream().Loop()
	s.shard = &s.server.shards[l.ID()]
	s.shard.sessions[s] = struct{}{}
	s.server.active.Add(1)
	s.client = l.Add(socket, (*clientSide)(s), req.Early)
	l.Handling(s.client)
	protocol := s.backend.Protocol()
	if !req.Offers(protocol) {
		protocol = ""
	}
	s.client.Write(req.AppendAccept(make([]byte, 0, 256), protocol))
	s.client.Write(s.backend.TakeGreeting())
	s.limitDuration()
	s.serve()
	if s.phase == relaying {
		s.watchIdle()
	}
}

// serve begins the lease: frames pass both ways from now on.
func (s *Session) serve() {
	s.up = direction{scanner: &s.scanner, to: s.backend.Stream(), masked: true, pings: s.backend}
	s.down = direction{scanner: &s.backend.Scanner, to: s.client}
	s.framesBefore, s.bytesBefore = s.backend.Scanner.Frames, s.backend.Scanner.Bytes
	s.phase = relaying
	s.backend.Stream().SetHandler((*backendSide)(s))
	if end := s.backend.EarlyEnd(); end != nil {
		s.refusedAtOnce(end)
		return
	}
	s.act(s.backend.Begin())
}

// idleLooks is how often within the idle limit a session is looked at.
const idleLooks = 4

// watchIdle looks now and then whether anything has passed since the last look, so that nothing needs to be noted when a
// frame passes.
func (s *Session) watchIdle() {
	limit := s.service.IdleTimeout
	if limit <= 0 {
		return
	}
	// Bytes are counted too, for a large frame that takes its time.
	from, to := &s.scanner, &s.backend.Scanner
	if count := from.Frames + from.Bytes + to.Frames + to.Bytes; count != s.lastCount {
		s.lastCount, s.quietLooks = count, 0
	} else if s.quietLooks++; s.quietLooks > idleLooks {
		s.end(byProxy, frame.PolicyViolation, "idle limit reached")
		return
	}
	s.timer.Set(s.client, limit/idleLooks, timerIdle)
}

// limitDuration ends the session when it has lasted too long.
func (s *Session) limitDuration() {
	if limit := s.service.MaxDuration; limit > 0 {
		s.deadline.Set(s.client, limit, timerDuration)
	}
}

// sent is how far the client's frames have got to the backend when a session ends: what comes later is not passed on.
type sent struct {
	messages             uint64
	midMessage, midFrame bool
}

func (s *Session) sentNow() sent {
	if s.phase > relaying {
		return s.sent
	}
	return sent{
		messages:   s.scanner.Messages - s.messagesBefore,
		midMessage: !s.scanner.AtMessageBoundary() || s.client.Held() > 0,
		midFrame:   !s.scanner.AtFrameBoundary(),
	}
}

// traffic says what has passed over the leased connection.
func (s *Session) traffic(sent sent) profile.Traffic {
	received, receiving := s.backend.MessagesReceived()
	return profile.Traffic{
		Sent: sent.messages, SendingMessage: sent.midMessage,
		Received: received, ReceivingMessage: receiving,
	}
}

// moveTo takes both connections to another loop.
func (s *Session) moveTo(to *loop.Loop) {
	if s.phase >= seeking {
		return // it has no backend connection, or soon another, or none any more
	}
	s.timer.Take()
	s.deadline.Take()
	s.backend.TakeTimers()
	delete(s.shard.sessions, s)
	arrived := func() {
		s.shard = &s.server.shards[s.client.Loop().ID()]
		s.shard.sessions[s] = struct{}{}
		s.timer.Put()
		s.deadline.Put()
		s.backend.PutTimers()
	}
	if !loop.Move(to, arrived, s.client, s.backend.Stream()) {
		arrived()
	}
}

// addressOf returns a peer's address in a form that is small to keep.
func addressOf(nc net.Conn) netip.AddrPort {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPort{}
}
