package follow

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// reason returns the text of an error, the same text for the same cause, with what an operator can do about it.
func (f *Follower) reason(err error) string {
	text := strings.ReplaceAll(stable(err), "\n", "; ") // where it is shown, a reason has one line
	if errors.Is(err, config.ErrMissing) && f.o.CopyFile != "" {
		text += fmt.Sprintf("; restore it from a backup, or import the last good configuration: wsbouncer config import %s --with-tenants --database %s"+
			" (to start with an empty configuration, stop the proxy and remove %[1]s as well)", f.o.CopyFile, f.o.Source)
	}
	return text
}

// stable returns the text of an error without the local addresses of its connections, whose ports differ each time.
func stable(err error) string {
	text := err.Error()
	var visit func(error)
	visit = func(err error) {
		if op, ok := err.(*net.OpError); ok && op.Source != nil {
			without := *op
			without.Source = nil
			text = strings.ReplaceAll(text, op.Error(), without.Error())
		}
		switch inner := err.(type) {
		case interface{ Unwrap() error }:
			if next := inner.Unwrap(); next != nil {
				visit(next)
			}
		case interface{ Unwrap() []error }:
			for _, next := range inner.Unwrap() {
				visit(next)
			}
		}
	}
	visit(err)
	return text
}

// maxReported is the maximum number of causes that are remembered.
const maxReported = 100

// isNewCause reports whether the cause was not logged since the store last worked. A store that cannot be reached is one cause,
// whether connections are cut, refused, or time out.
func (f *Follower) isNewCause(err error, reason string) bool {
	cause := reason
	if errors.Is(err, config.ErrUnreachable) {
		cause = config.ErrUnreachable.Error()
	}
	if f.reported[cause] {
		return false
	}
	if f.reported == nil || len(f.reported) >= maxReported {
		f.reported = make(map[string]bool)
	}
	f.reported[cause] = true
	return true
}
