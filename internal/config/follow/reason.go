package follow

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// reason returns what an error says in words that are the same whenever the cause is, and what an operator can do about it.
func (f *Follower) reason(err error) string {
	text := stable(err)
	if errors.Is(err, config.ErrMissing) && f.o.CopyFile != "" {
		text += fmt.Sprintf("; restore it from a backup, or bring back the last good configuration: wsbouncer config import %s --database %s"+
			" (to begin anew, stop the proxy and remove %[1]s as well)", f.o.CopyFile, f.o.Source)
	}
	return text
}

// stable returns the text of an error without the local addresses of its connections, whose ports are others each time.
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

// maxSaid bounds how many causes are remembered.
const maxSaid = 100

// isNews tells whether the cause was not logged yet since the store was well last. A store that cannot be reached is one cause,
// whatever it says each time: that connections are cut, refused, or time out.
func (f *Follower) isNews(err error, reason string) bool {
	cause := reason
	if errors.Is(err, config.ErrUnreachable) {
		cause = config.ErrUnreachable.Error()
	}
	if f.said[cause] {
		return false
	}
	if f.said == nil || len(f.said) >= maxSaid {
		f.said = make(map[string]bool)
	}
	f.said[cause] = true
	return true
}
