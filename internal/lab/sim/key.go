package sim

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// keyAuth is how a service takes an account's key in the opening handshake, and how it refuses clients whose key is wrong or missing.
type keyAuth struct {
	// key returns the key that the request presents; empty for none.
	key func(r *http.Request) string
	// subprotocols are those that the service accepts, since browsers offer their key behind one.
	subprotocols []string
	// unauthorized is the body of the HTTP answer (401) to such a client, JSON, in which $ID stands for the request's id.
	unauthorized string
	// header returns further fields of that answer; nil for none.
	header func(id, body string) map[string]string
	// message is what the service says after the upgrade, if it accepts the upgrade before it checks the key; otherwise nil.
	message func(v *voice, missing bool)
}

// scheme returns the credentials of that scheme (RFC 9110, section 11.4), or nothing.
func scheme(r *http.Request, name string) string {
	given, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(given, name) {
		return ""
	}
	return strings.TrimSpace(credentials)
}

// offered returns the subprotocols that the client offers.
func offered(r *http.Request) []string {
	var offers []string
	for offer := range strings.SplitSeq(strings.Join(r.Header["Sec-Websocket-Protocol"], ","), ",") {
		if offer = strings.TrimSpace(offer); offer != "" {
			offers = append(offers, offer)
		}
	}
	return offers
}

// KeyProtocols returns the names of the protocols that can ask for a key.
func KeyProtocols() []string {
	var names []string
	for _, p := range protocols {
		if p.auth != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// validKey tells what is wrong with the key that clients have to present.
func (o Options) validKey(p *Protocol) error {
	switch {
	case o.APIKey == "" && o.RefuseByStatus:
		return fmt.Errorf("refuse by status: no client is refused without an API key: set one")
	case o.APIKey == "":
		return nil
	case p.auth == nil:
		return fmt.Errorf("api key: the protocol %s takes none: use one of %s", p.Name, strings.Join(KeyProtocols(), ", "))
	}
	if !handshake.IsToken(o.APIKey) { // browsers offer it as a subprotocol
		return fmt.Errorf("api key: it has characters that a subprotocol cannot have: use letters, digits and !#$%%&'*+-.^_`|~")
	}
	return nil
}

// wrongKey reports whether the server asks for a key that the request does not have, and whether it has none at all.
func (s *Server) wrongKey(r *http.Request) (wrong, missing bool) {
	if s.options.APIKey == "" {
		return false, false
	}
	key := s.protocol.auth.key(r)
	return subtle.ConstantTimeCompare([]byte(key), []byte(s.options.APIKey)) == 0, key == ""
}

// refusesByStatus reports whether the answer to a bad key is an HTTP status.
func (s *Server) refusesByStatus() bool {
	return s.options.RefuseByStatus || s.protocol.auth.message == nil
}

// dialogueFor returns what the server says on the connection of a request.
func (s *Server) dialogueFor(r *http.Request) dialogue {
	if wrong, missing := s.wrongKey(r); wrong {
		return refusedDialogue{missing, s.protocol.auth}
	}
	return s.protocol.new(r)
}

// refusedDialogue is a connection that was accepted for a client without a good key.
type refusedDialogue struct {
	missing bool
	auth    *keyAuth
}

func (d refusedDialogue) greet(v *voice) { d.auth.message(v, d.missing) }

func (refusedDialogue) hear(*voice, frame.Opcode, []byte) {}

// subprotocolOf returns the subprotocol that the server accepts of those which the request offers.
func (s *Server) subprotocolOf(r *http.Request) string {
	wanted := []string{cmp.Or(s.options.Subprotocol, s.protocol.Subprotocol)}
	if s.options.Subprotocol == "" && s.protocol.auth != nil {
		wanted = s.protocol.auth.subprotocols
	}
	for _, offer := range offered(r) {
		if slices.Contains(wanted, offer) {
			return offer
		}
	}
	return ""
}

// refuse answers a request with that id, which has a bad key, and closes the connection. It reads what the client is still sending, so that no reset
// overtakes the answer.
func (a *keyAuth) refuse(nc net.Conn, id string) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Second))
	body := strings.ReplaceAll(a.unauthorized, "$ID", id)
	response := &http.Response{
		StatusCode: http.StatusUnauthorized, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
	if a.header != nil {
		for name, value := range a.header(id, body) {
			response.Header.Set(name, value)
		}
	}
	var b bytes.Buffer
	_ = response.Write(&b) // does not fail on a buffer
	if _, err := nc.Write(b.Bytes()); err != nil {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, 64<<10)
	}
}

// uuid returns a random identifier in the form that services give to requests.
func uuid(dice *rand.Rand) string {
	high, low := dice.Uint64(), dice.Uint64()
	text := fmt.Sprintf("%016x%016x", high&^0xf000|0x4000, low&^(3<<62)|1<<63)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// number returns the number in a query's parameter, or 0.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
