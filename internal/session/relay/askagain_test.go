package relay

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// askedMethod is a method that is asked once more, and has an answer for each time.
type askedMethod struct {
	fixedMethod
	turn    time.Duration
	turns   atomic.Int64
	answers chan string
}

func (m *askedMethod) Authenticate(ctx context.Context, a *auth.Attempt) (*identity.Identity, error) {
	if a.Question != nil {
		*a.Question = "about " + a.Credential
	}
	return m.fixedMethod.Authenticate(ctx, a)
}

func (m *askedMethod) Turn() time.Duration {
	m.turns.Add(1)
	return m.turn
}

func (m *askedMethod) Again(ctx context.Context, question string) string {
	if question != "about secret" {
		return "asked " + question
	}
	select {
	case answer := <-m.answers:
		return answer
	case <-ctx.Done():
		return ""
	}
}

// A session ends when its method, asked once more, turns its client away. Meanwhile it continues, and the method is asked one question at a time,
// each in its turn.
func TestAskAgain(t *testing.T) {
	for _, turn := range []time.Duration{0, time.Millisecond} {
		method := &askedMethod{turn: turn, answers: make(chan string)}
		r := newRig(t, setup{
			Profile: "echo", Service: func(s *route.Service) { s.Auth = policyOf(t, "header", method) },
		}, func(o *Options) { o.AskAgainAfter = time.Millisecond })
		client := r.Join("Authorization: Bearer secret")
		server := r.Accepted()
		for range 3 { // nothing has changed, or there was no answer
			method.answers <- ""
			client.Send(frame.Text, "hello")
			server.Expect(frame.Text, "hello")
		}
		method.answers <- "it was taken back"
		client.ExpectClose(frame.PolicyViolation, "it was taken back")
		client.SendClose(frame.PolicyViolation, "")
		client.ExpectEnd()
		_ = client.Close()
		r.endedAs(meter.Unauthorized)
		if n := method.turns.Load(); n != 4 {
			t.Errorf("%d turns were taken for 4 questions", n)
		}
	}
}

// renewedMethod knows a client by several credentials, each of which expires at another time, and is asked once more about each.
type renewedMethod struct {
	expires map[string]time.Time
	asked   chan string
	answers map[string]chan string
}

func (*renewedMethod) Name() string        { return identity.MethodExternal }
func (*renewedMethod) Turn() time.Duration { return 0 }

func (m *renewedMethod) Authenticate(_ context.Context, a *auth.Attempt) (*identity.Identity, error) {
	*a.Question = a.Credential
	return &identity.Identity{Subject: "u", Method: identity.MethodExternal, Expires: m.expires[a.Credential]}, nil
}

func (m *renewedMethod) Again(ctx context.Context, question string) (reason string) {
	select {
	case m.asked <- question:
	case <-ctx.Done():
	}
	select {
	case reason = <-m.answers[question]:
	case <-ctx.Done():
	}
	return reason
}

// A client that comes back with a renewed credential is no longer held to the one before, whatever is said of that.
func TestComesBackWithRenewedCredential(t *testing.T) {
	m := &renewedMethod{asked: make(chan string), answers: map[string]chan string{"old": make(chan string), "new": make(chan string)}}
	m.expires = map[string]time.Time{"old": time.Now().Add(time.Hour), "new": time.Now().Add(2 * time.Hour)}
	r := newRig(t, setup{Profile: "echo", Service: func(s *route.Service) {
		reconnects(s)
		s.Auth = policyOf(t, "header", m)
	}}, func(o *Options) { o.AskAgainAfter = time.Millisecond })
	r.Ready(1)
	client, answer := r.comes("Authorization: Bearer old")
	server := r.Accepted()
	about := func(want string) {
		t.Helper()
		if got := wstest.Receive(t, m.asked, "a question"); got != want {
			t.Fatalf("asked about %s, want %s", got, want)
		}
	}
	about("old")
	client.Reset()
	r.parked(1)
	client, _ = r.comes("Wsbouncer-Resume: "+answer.Get("Wsbouncer-Resume"), "Authorization: Bearer new")
	about("new")
	m.answers["old"] <- "the credential is no longer accepted"
	m.answers["new"] <- ""
	about("new")
	r.on(func(s *Session) {
		if at := s.record.Identity.Expires; !at.Equal(m.expires["new"]) {
			t.Errorf("it expires at %v", at)
		}
	})
	client.Send(frame.Text, "hello")
	server.Expect(frame.Text, "hello")
}

// A service that does not end sessions asks nothing, and keeps nothing to ask with. One that stops to end them takes no answer.
func TestAskAgainOnlyIfItMatters(t *testing.T) {
	method := &askedMethod{answers: make(chan string)}
	keeps := policyOf(t, "header", method)
	keeps.EndUnauthorized = false
	r := newRig(t, setup{
		Profile: "echo", Service: func(s *route.Service) { s.Auth = keeps },
	}, func(o *Options) { o.AskAgainAfter = time.Millisecond })
	ends := *r.Service
	ends.Auth = policyOf(t, "header", method)
	r.SetServices([]*route.Service{&ends})
	client := r.Join("Authorization: Bearer secret")
	server := r.Accepted()
	wstest.Eventually(t, "it is asked", func() bool { return method.turns.Load() == 1 })
	r.SetServices([]*route.Service{r.Service})
	method.answers <- "it was taken back"
	client.Send(frame.Text, "hello")
	server.Expect(frame.Text, "hello")
	server.Send(frame.Text, "hello")
	client.Expect(frame.Text, "hello")
	_ = client.Close()
	wstest.Eventually(t, "the session has ended", func() bool { return r.sessions.Active() == 0 })
	r.Ready(1)
	r.Join("Authorization: Bearer secret")
	r.on(func(s *Session) {
		if s.question() != nil || s.credentialLeft() != 0 {
			t.Errorf("it keeps %+v", s.question())
		}
	})
}
