package external

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
)

// How often the server is asked once more about clients that have been let in, however many sessions there are: the questions in a second,
// and those under way. Neither takes anything from the turns of clients that come.
const (
	againPerSecond = 10
	againAtOnce    = 4
)

// refusedNow is the reason that a client gets which is turned away later.
const refusedNow = "the credential is no longer accepted"

// again bounds the questions about clients that have been let in. Any goroutine may use it.
type again struct {
	rate    *rate.Limiter
	unasked chan struct{} // one for each question that may still be asked now
}

func newAgain() again {
	a := again{rate.NewLimiter(againPerSecond, againPerSecond), make(chan struct{}, againAtOnce)}
	for range againAtOnce {
		a.unasked <- struct{}{}
	}
	return a
}

// Turn implements [auth.Asker].
func (c *Checker) Turn() time.Duration { return c.again.rate.Reserve().Delay() }

// Again implements [auth.Asker]. Only 401 and 403 turn a client away.
func (c *Checker) Again(ctx context.Context, question string) (reason string) {
	select {
	case <-c.again.unasked:
	case <-ctx.Done():
		return ""
	}
	defer func() { c.again.unasked <- struct{}{} }()
	header := unpack(question)
	answer, err := c.askNow(ctx, netip.Addr{}, header)
	if err != nil {
		return ""
	}
	turnedAway := answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden
	if c.o.Cache > 0 && turnedAway {
		c.remember(keyOf(header), answer) // in place of the one that has let others in
	}
	if turnedAway {
		return refusedNow
	}
	return ""
}

// keepQuestion keeps the header of a question as one text: a session that lasts takes no more memory for it than it must.
func keepQuestion(a *auth.Attempt, header http.Header) {
	if a.Question == nil {
		return
	}
	var text strings.Builder
	for name, values := range header {
		for _, value := range values {
			text.WriteString(name + ":" + value + "\n") // neither has a line end: see question
		}
	}
	*a.Question = text.String()
}

// unpack returns the header that keepQuestion has kept.
func unpack(question string) http.Header {
	header := make(http.Header)
	for line := range strings.Lines(question) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		header[name] = append(header[name], value)
	}
	return header
}
