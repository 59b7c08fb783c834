// Package dnstest has a DNS server for tests. It answers on loopback, over UDP and TCP on one port, with what the test tells it to.
package dnstest

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Server is a DNS server. Its methods may be called from any goroutine.
type Server struct {
	t       testing.TB
	address string

	mu     sync.Mutex
	zone   map[string][]dns.RR // guarded by mu: by the name in lower case, with its last dot
	codes  map[string]int      // guarded by mu: names that are answered with an error
	silent bool                // guarded by mu: it answers nothing
	asked  map[string]int      // guarded by mu: queries, by name
	byTCP  int                 // guarded by mu: queries that came over TCP
}

// Start starts a server that knows no names. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, zone: make(map[string][]dns.RR), codes: make(map[string]int), asked: make(map[string]int)}
	for range 100 { // the port of the one socket may be taken for the other
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", packets.LocalAddr().String())
		if err != nil {
			_ = packets.Close()
			continue
		}
		s.address = listener.Addr().String()
		s.serve(&dns.Server{PacketConn: packets})
		s.serve(&dns.Server{Listener: listener})
		return s
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil
}

func (s *Server) serve(on *dns.Server) {
	begun, ended := make(chan struct{}), make(chan struct{})
	on.Handler = s
	on.NotifyStartedFunc = func() { close(begun) }
	go func() {
		defer close(ended)
		if err := on.ActivateAndServe(); err != nil {
			s.t.Error(err)
		}
	}()
	<-begun
	s.t.Cleanup(func() {
		_ = on.Shutdown()
		<-ended
	})
}

// Address returns the server's host:port.
func (s *Server) Address() string { return s.address }

// Set sets the records of a name: addresses such as 10.0.0.1, and others as in a zone file, such as "SRV 0 1 2700 gpu-1.test.". Without
// records, the name exists and has none. Names end with a dot.
func (s *Server) Set(name string, records ...string) {
	s.t.Helper()
	list := []dns.RR{}
	for _, text := range records {
		if ip := net.ParseIP(text); ip != nil && ip.To4() != nil {
			text = "A " + text
		} else if ip != nil {
			text = "AAAA " + text
		}
		record, err := dns.NewRR(name + " 1 IN " + text)
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, record)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[strings.ToLower(name)] = list
	delete(s.codes, strings.ToLower(name))
}

// Fail has queries for a name answered with an error, such as [dns.RcodeServerFailure], until Set.
func (s *Server) Fail(name string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[strings.ToLower(name)] = code
}

// Remove removes a name: it no longer exists (NXDOMAIN).
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.zone, strings.ToLower(name))
	delete(s.codes, strings.ToLower(name))
}

// Silence sets whether the server drops all queries.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Asked returns how many queries for a name have come, over UDP and TCP.
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[strings.ToLower(name)]
}

// ByTCP returns how many queries have come over TCP.
func (s *Server) ByTCP() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTCP
}

// ServeDNS implements [dns.Handler].
func (s *Server) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	answer, ok := s.answer(query, w.RemoteAddr().Network() == "tcp")
	if !ok {
		return
	}
	if w.RemoteAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if options := query.IsEdns0(); options != nil {
			size = int(options.UDPSize())
		}
		answer.Truncate(size)
	}
	_ = w.WriteMsg(answer) // the client may be gone
}

func (s *Server) answer(query *dns.Msg, tcp bool) (answer *dns.Msg, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	question := query.Question[0]
	name := strings.ToLower(question.Name)
	s.asked[name]++
	if tcp {
		s.byTCP++
	}
	answer = new(dns.Msg)
	answer.SetReply(query)
	answer.Authoritative = true
	records, known := s.zone[name]
	code, fails := s.codes[name]
	switch {
	case fails:
		answer.Rcode = code
	case !known:
		answer.Rcode = dns.RcodeNameError
	}
	for _, record := range records {
		if !fails && record.Header().Rrtype == question.Qtype {
			answer.Answer = append(answer.Answer, record)
		}
	}
	return answer, !s.silent
}
