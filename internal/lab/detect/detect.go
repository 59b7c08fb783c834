// Package detect finds out which profile's protocol a server speaks: it listens for a greeting, and then holds a short session with the server as
// the clients of each profile do, one after the other. `wsbouncer init` uses it.
package detect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Options say what is tried on which server.
type Options struct {
	// Target returns the server as clients of a profile reach it, and without a subprotocol for nil.
	Target func(p *profile.Profile) (*handshake.Target, error)
	// Recording returns what is said to servers of a profile. The error is one of package speaker: then the profile is not tried.
	Recording func(p *profile.Profile) (*speaker.Recording, error)
	Profiles  []*profile.Profile
	// Wait bounds each wait for the server.
	Wait time.Duration
	// Tried is called after each session; nil for no call.
	Tried func(t Try)
}

// Try is what a session as of a profile's client has shown.
type Try struct {
	Profile *profile.Profile
	Fits    bool
	// Found is the evidence of a profile that fits, and why another one does not.
	Found string
	// Untried says that there was no session.
	Untried bool

	strength int   // of the evidence
	refused  error // the server did not accept the connection
}

// Result is what is known of a server.
type Result struct {
	// Greeting is what it sends before its client says anything, shortened; empty for nothing.
	Greeting string
	// Tries are all profiles, those that fit first, and those with the strongest evidence first among them.
	Tries []Try
}

// Fitting returns the profiles that fit. The first one is the only one whose evidence is the strongest, unless it is doubtful: the
// evidence is as strong for others.
func (r *Result) Fitting() (fitting []Try, doubtful bool) {
	fitting = r.Tries[:0:0]
	for _, t := range r.Tries {
		if t.Fits {
			fitting = append(fitting, t)
		}
	}
	return fitting, len(fitting) > 1 && fitting[0].strength == fitting[1].strength
}

// greetingWait is how long a server has to greet.
const greetingWait = time.Second

// Run tries all profiles. The error says that the server cannot be tried at all.
func Run(ctx context.Context, o Options) (*Result, error) {
	greeting, text, err := o.greeting(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Greeting: text}
	sessions := 0
	var refused error
	for _, p := range o.Profiles {
		t := o.try(ctx, p, greeting)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if t.refused != nil {
			refused = t.refused
		} else if !t.Untried {
			sessions++
		}
		r.Tries = append(r.Tries, t)
		if o.Tried != nil {
			o.Tried(t)
		}
	}
	if sessions == 0 && refused != nil {
		return nil, fmt.Errorf("the server has refused every connection, so that nothing shows which profile fits: %w", refused)
	}
	slices.SortStableFunc(r.Tries, func(a, b Try) int { return b.strength - a.strength })
	return r, nil
}

// greeting connects without a subprotocol and returns what the server says at once, also as people may read it; nil for nothing, and for a server that does
// not upgrade such a connection, which may want a subprotocol or parameters.
func (o *Options) greeting(ctx context.Context) (m *speaker.Message, text string, err error) {
	target, err := o.Target(nil)
	if err != nil {
		return nil, "", err
	}
	conn, err := o.dial(ctx, target)
	switch status := (*handshake.StatusError)(nil); {
	case errors.As(err, &status) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, status.Status):
		return nil, "", fmt.Errorf("%w: give the credential that it wants with --header NAME=VALUE", err)
	case errors.As(err, &status) && status.Status == http.StatusNotFound:
		return nil, "", fmt.Errorf("%w: the URL needs the path of the server's WebSocket", err)
	case errors.As(err, &status):
		return nil, "", nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, "", fmt.Errorf("%w: is the server running at this address?", err)
	case err != nil:
		return nil, "", err
	}
	defer context.AfterFunc(ctx, conn.Abort)()
	defer conn.Hang()
	said, err := conn.Receive(time.Now().Add(min(greetingWait, o.Wait)))
	if err != nil {
		return nil, "", nil //nolint:nilerr // it says nothing, or ends: sessions show more
	}
	return &said, shown(said, conn), nil
}

func (o *Options) dial(ctx context.Context, target *handshake.Target) (*speaker.Conn, error) {
	dialing, cancel := context.WithTimeoutCause(ctx, o.Wait, fmt.Errorf("not connected within %v", o.Wait))
	defer cancel()
	established, err := target.Dial(dialing)
	if err != nil {
		return nil, err
	}
	return speaker.NewConn(established, o.Wait), nil
}

// try holds a session as a client of a profile.
func (o *Options) try(ctx context.Context, p *profile.Profile, greeting *speaker.Message) Try {
	t := Try{Profile: p}
	script := p.Script()
	recording, err := o.Recording(p)
	if err != nil {
		t.Untried, t.Found = true, err.Error()
		return t
	}
	isGreeted := greeting != nil && script.IsReady(greeting.Opcode, greeting.Payload, 0)
	if script.AwaitsReady() && len(script.Start) == 0 && !isGreeted {
		t.Untried, t.Found = true, "the server did not send its greeting"
		return t
	}
	target, err := o.Target(p)
	if err != nil {
		t.Untried, t.Found = true, err.Error()
		return t
	}
	target.AddQuery(recording.Query())
	conn, err := o.dial(ctx, target)
	if err != nil {
		t.refused, t.Found = err, err.Error()
		return t
	}
	defer context.AfterFunc(ctx, conn.Abort)()
	result, err := recording.Speak(ctx, conn, speaker.Options{Pace: 1, Token: rand.Uint64(), Ready: o.Wait, Last: o.Wait})
	switch {
	case err != nil:
		conn.Hang()
		t.Found = conn.Masked(err).Error()
		return t
	case !result.Complete:
		conn.Hang()
		t.Found = "the session did not come to its end"
		return t
	}
	conn.Close(frame.NormalClosure, time.Now().Add(min(time.Second, o.Wait)))
	text := strings.TrimSpace(conn.Mask(result.Text))
	if len(script.Texts) > 0 && text == "" {
		t.Found = fmt.Sprintf("a session came to its end, and its %d messages have no text", len(result.Received))
		return t
	}
	if len(script.Texts) == 0 && !echoes(recording, result) {
		t.Found = "the server does not send back what it gets"
		return t
	}
	t.Fits, t.strength = true, 1
	evidence := []string{fmt.Sprintf("a session of %v came to its end in order", recording.Length().Round(10*time.Millisecond))}
	if text != "" {
		evidence = append(evidence, fmt.Sprintf("its text is %q", printable.Text(text, 100)))
	}
	if script.AwaitsReady() {
		t.strength++
		evidence = append(evidence, "the server said that it was ready")
	}
	if script.HasLast() {
		t.strength++
		evidence = append(evidence, "its last message was the one that the profile describes")
	}
	if p.Subprotocol != "" {
		t.strength++
		evidence = append(evidence, "it took the subprotocol "+p.Subprotocol)
	}
	t.Found = strings.Join(evidence, "; ")
	return t
}

// echoes reports whether each message of audio came back.
func echoes(r *speaker.Recording, result *speaker.Result) bool {
	if len(result.Received) == 0 || len(result.Received) != r.Chunks() {
		return false
	}
	for i, m := range result.Received {
		sent := r.Chunk(i, 0)
		if m.Opcode != sent.Opcode || string(m.Payload) != string(sent.Payload) {
			return false
		}
	}
	return true
}

// shown returns a message of a connection as people may read it.
func shown(m speaker.Message, conn *speaker.Conn) string {
	if m.Opcode == frame.Binary {
		return fmt.Sprintf("%d bytes of binary", len(m.Payload))
	}
	return printable.Text(strings.TrimSpace(conn.Mask(string(m.Payload))), 200)
}
