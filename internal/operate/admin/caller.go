package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Caller is who sent a request, as far as the guard has proved it. (What an order says of who gives it is the caller's word.)
type Caller struct {
	Role string // api.RoleReader or api.RoleOperator
	Name string // what proved it: a token's role, a user of this machine, or this machine
	From string // the address, or "admin socket"
}

// may reports whether the caller may use a route that takes this role.
func (c *Caller) may(role string) bool { return role == api.RoleReader || c.Role == api.RoleOperator }

// The names of callers, other than users of this machine.
const (
	operatorToken = "operator token"
	readerToken   = "reader token"
	thisMachine   = "this machine"
)

type callerKey struct{}

// CallerOf returns who sent a request that the guard has passed on. The zero Caller, which may do nothing, is for all others.
func CallerOf(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(*Caller)
	if c == nil {
		return Caller{}
	}
	return *c
}

func withCaller(r *http.Request, c *Caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

type admissionKey struct{}

// withAdmission adds to a request how to ask whether the guard would still admit it.
func withAdmission(r *http.Request, still func() bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), admissionKey{}, still))
}

// stillAdmitted returns what tells whether the guard would still admit a request that it has passed on.
func stillAdmitted(r *http.Request) func() bool {
	still, _ := r.Context().Value(admissionKey{}).(func() bool)
	return still
}

// peer is the process at the other end of a unix socket, as the kernel reported it when that process connected.
type peer struct{ uid uint32 }

type peerKey struct{}

// withPeer adds to a connection's context who is at its other end, if that is a unix socket and the system knows it ([http.Server.ConnContext]).
func withPeer(ctx context.Context, nc net.Conn) context.Context {
	uid, ok := machine.PeerUser(secure.Under(nc))
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer{uint32(uid)})
}

// peerOf returns the user id of the process at the other end of a unix socket; ok is false if that is not known.
func peerOf(r *http.Request) (uid int, ok bool) {
	p, ok := r.Context().Value(peerKey{}).(peer)
	return int(p.uid), ok
}

// FromOwnUser reports whether a request comes over the admin socket from a process that can do all that this one can: one of root or of this process's
// user.
func FromOwnUser(r *http.Request) bool {
	uid, ok := peerOf(r)
	return isSocket(r) && ok && machine.IsOwnUser(uid)
}

// localName says which user of this machine sent a request; thisMachine if that is not known.
func localName(r *http.Request) string {
	p, ok := r.Context().Value(peerKey{}).(peer)
	if !ok {
		return thisMachine
	}
	uid := strconv.FormatUint(uint64(p.uid), 10)
	if known, err := user.LookupId(uid); err == nil {
		return fmt.Sprintf("user %s (uid %s)", known.Username, uid)
	}
	return "uid " + uid
}

// isSocket reports whether a request came over the admin socket.
func isSocket(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
	return ok && at.Network() == "unix"
}

// fromOf returns where a request came from, as the audit log shows it.
func fromOf(r *http.Request) string {
	if isSocket(r) {
		return "admin socket"
	}
	return r.RemoteAddr
}

// accessRoutes returns GET /api/v1/access.
func accessRoutes(commands string) []route {
	return []route{{path: api.AccessPath, methods: methods{http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		caller := CallerOf(r)
		return api.Access{Role: caller.Role, Caller: caller.Name, From: caller.From, Commands: commands}, nil
	})}}}
}
