package meter

import (
	"cmp"
	"slices"
	"strconv"
)

// Party is who ended a session.
type Party uint8

// The parties.
const (
	Client Party = iota
	Server       // the backend
	Proxy

	parties = iota
)

// String returns client, backend or proxy.
func (p Party) String() string { return [parties]string{"client", "backend", "proxy"}[p] }

// Class is why a session ended. There are few, and they stay: metrics, logs and the admin API name them.
type Class uint8

// The classes. The zero value stands for a session that has not ended.
const (
	NotEnded Class = iota
	// Normal: the client or the server closed with 1000 or without a code, the client with 1001, or the client said that it is done.
	Normal
	// Application: the client or the server closed with a code from 3000 to 4999, whose meaning only they know.
	Application
	// ClientLeft: the client's connection ended without a close frame.
	ClientLeft
	// ClientError: the client broke RFC 6455, sent bad UTF-8 or too large a message, or closed with a code for an error.
	ClientError
	// Limit: the session was idle for too long, or has lasted as long as the service allows.
	Limit
	// Unauthorized: the client's credential was revoked or has expired.
	Unauthorized
	// BackendLeft: the server went away in order, with 1001 or 1012.
	BackendLeft
	// BackendFailed: the server vanished, did not answer, broke the protocol, or closed with a code for an error.
	BackendFailed
	// BackendRefused: the server refused the client for what it said: 1008, or an HTTP status.
	BackendRefused
	// BackendFull: the server said that it is full, or no other connection came free in time for a session that had to move.
	BackendFull
	// ConnectionLost: the connection to the server was lost and the server is not to blame: this machine is short of something, or
	// the client did not read for so long that TCP gave up.
	ConnectionLost
	// Shutdown: the proxy shut down.
	Shutdown
	// Killed: an operator ended the session.
	Killed
	// InternalError: a bug in the proxy.
	InternalError

	classes = iota
)

var classNames = [classes]string{
	"", "normal", "application", "client_left", "client_error", "limit", "unauthorized", "backend_left", "backend_failed", "backend_refused", "backend_full",
	"connection_lost", "shutdown", "killed", "internal_error",
}

// String returns the class's name in metrics, such as client_left; empty for NotEnded.
func (c Class) String() string { return classNames[c] }

// Classes returns all classes that a session can end with.
func Classes() []Class {
	all := make([]Class, 0, classes-1)
	for c := Normal; c < classes; c++ {
		all = append(all, c)
	}
	return all
}

// Failed reports whether the session failed by a fault of a backend, the proxy or the machine it runs on.
func (c Class) Failed() bool {
	return c == BackendFailed || c == BackendFull || c == ConnectionLost || c == InternalError
}

// ClosedByClient returns the class of a session that the client has ended with a close frame. code is 1005 for one without a code.
func ClosedByClient(code uint16) Class {
	switch {
	case code == 1000 || code == 1001 || code == 1005:
		return Normal
	case code >= 3000:
		return Application
	}
	return ClientError
}

// ClosedByServer returns the class of a session that the server has ended with a close frame. code is 1005 for one without a code.
func ClosedByServer(code uint16) Class {
	switch {
	case code == 1000 || code == 1005:
		return Normal
	case code == 1001 || code == 1012:
		return BackendLeft
	case code == 1008:
		return BackendRefused
	case code == 1013:
		return BackendFull
	case code >= 3000:
		return Application
	}
	return BackendFailed
}

// Close codes are counted one by one from 1000 to 1015; those that applications choose are counted together, since a client could make
// a thousand series of them.
const (
	firstCode = 1000
	lastCode  = 1015
	codes     = lastCode - firstCode + 1 + 3 // libraries' and applications' codes, and others
)

// code is a close code as it is counted.
type code uint8

func codeOf(c uint16) code {
	switch {
	case firstCode <= c && c <= lastCode:
		return code(c - firstCode)
	case 3000 <= c && c <= 3999:
		return codes - 3
	case 4000 <= c && c <= 4999:
		return codes - 2
	}
	return codes - 1
}

func (c code) String() string {
	switch c {
	case codes - 3:
		return "3xxx"
	case codes - 2:
		return "4xxx"
	case codes - 1:
		return "other"
	}
	return strconv.Itoa(firstCode + int(c))
}

// CodeName returns how metrics name a close code: itself from 1000 to 1015, 3xxx, 4xxx or other.
func CodeName(c uint16) string { return codeOf(c).String() }

// End is a kind of end, and how many sessions had it.
type End struct {
	By       Party
	Class    Class
	code     code
	Sessions uint64
}

// NewEnd returns a number of sessions that ended in the same way.
func NewEnd(by Party, code uint16, class Class, sessions uint64) End {
	return End{By: by, Class: class, code: codeOf(code), Sessions: sessions}
}

// Code returns the client's close code as metrics name it, see [CodeName].
func (e *End) Code() string { return e.code.String() }

// ends returns the kinds of ends that have occurred.
func (b *Backend) ends() (all []End) {
	for by := range b.ended {
		for c := range b.ended[by] {
			for class := range b.ended[by][c] {
				if n := b.ended[by][c][class].Load(); n > 0 {
					all = append(all, End{By: Party(by), code: code(c), Class: Class(class), Sessions: n})
				}
			}
		}
	}
	return all
}

// SameAs reports whether other is the same kind of end.
func (e *End) SameAs(other *End) bool { return e.compare(other) == 0 }

func (e *End) compare(o *End) int {
	return cmp.Or(cmp.Compare(e.By, o.By), cmp.Compare(e.code, o.code), cmp.Compare(e.Class, o.Class))
}

// addEnds returns the sum of two lists, each in order and without repetition.
func addEnds(a, b []End) []End {
	if len(a) == 0 {
		return slices.Clone(b)
	}
	for i := range b {
		at, found := slices.BinarySearchFunc(a, b[i], func(x, y End) int { return x.compare(&y) })
		if found {
			a[at].Sessions += b[i].Sessions
		} else {
			a = slices.Insert(a, at, b[i])
		}
	}
	return a
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.service, o.service), cmp.Compare(k.backend, o.backend))
}

// OrderlyEnd is how it went to end a session on the server in its client's place.
type OrderlyEnd uint8

// The results.
const (
	// EndCompleted: the server said its last word, or closed.
	EndCompleted OrderlyEnd = iota
	// EndTimedOut: it did neither in time.
	EndTimedOut
	// EndLost: the connection was lost, or the server broke RFC 6455.
	EndLost
	// EndSkipped: the server was not notified, since it had too many such connections already.
	EndSkipped

	orderlyEnds = iota
)

// String returns the result's name in metrics.
func (e OrderlyEnd) String() string {
	return [orderlyEnds]string{"completed", "timed_out", "lost", "skipped"}[e]
}

// OrderlyEnds counts them by result.
type OrderlyEnds [orderlyEnds]uint64

// EndedInOrder counts a session that was ended on the server in its client's place, or that was not. Any goroutine may call it.
func (b *Backend) EndedInOrder(e OrderlyEnd) { b.orderly[e].Add(1) }
