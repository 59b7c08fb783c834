package services

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Backends come, grow, shrink and go, and what runs is what the configuration says.
func TestBackendsComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startServer(t, 4), startServer(t, 3)
	r.serve("a", a.URL(), 2)
	session := r.join("/stt")
	session.echo("1")
	r.apply(func(c *config.Content) { putBackend(c, "b", "stt", b.URL(), 3, nil) })
	r.idle("b", 3)
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL(), 4, nil) })
	wstest.Eventually(t, "a has grown", func() bool { s := r.backend("a"); return s.Idle == 3 && s.Leased == 1 })
	r.apply(func(c *config.Content) {
		putBackend(c, "a", "stt", a.URL(), 1, nil)
		delete(c.Backends, "b")
	})
	wstest.Eventually(t, "a has shrunk, and b has gone", func() bool {
		s := r.stats()
		return len(s.Backends) == 1 && len(s.Leaving) == 0 && s.Backends[0].Idle == 0 && s.Backends[0].Retiring == 0 && b.Stats().Connections == 0
	})
	session.echo("2")
	session.leave()
	r.idle("a", 1)
}

// A backend that gets another name keeps its connections.
func TestRename(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	r.serve("a", a.URL(), 2)
	session := r.join("/stt")
	r.apply(func(c *config.Content) {
		putBackend(c, "z", "stt", a.URL(), 2, nil)
		delete(c.Backends, "a")
	})
	if s := r.stats(); len(s.Backends) != 1 || s.Backends[0].Name != "z" || s.Backends[0].Leased != 1 || len(s.Leaving) != 0 {
		t.Errorf("after it was renamed: %+v", s)
	}
	session.echo("still there")
	session.leave()
	r.idle("z", 2)
	if n := a.Stats().Accepted; n != 2 {
		t.Errorf("%d connections were dialed; want 2", n)
	}
}

// Two backends that change their names with one another keep their connections as well.
func TestSwapNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startServer(t, 2), startServer(t, 2)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 2, nil)
		putBackend(c, "b", "stt", b.URL(), 2, nil)
	})
	r.idle("a", 2)
	r.idle("b", 2)
	r.apply(func(c *config.Content) {
		putBackend(c, "a", "stt", b.URL(), 2, nil)
		putBackend(c, "b", "stt", a.URL(), 2, nil)
	})
	r.settled()
	if got := r.backend("a").URL; got != b.URL() {
		t.Errorf("a is %s; want %s", got, b.URL())
	}
	if got := r.backend("b").URL; got != a.URL() {
		t.Errorf("b is %s; want %s", got, a.URL())
	}
}

// Another server of the same name is another backend: the old one leaves, its session continues.
func TestAnotherServerOfTheName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startServer(t, 2), startServer(t, 2)
	r.serve("gpu", a.URL(), 2)
	session := r.join("/stt")
	r.apply(func(c *config.Content) { putBackend(c, "gpu", "stt", b.URL(), 2, nil) })
	r.idle("gpu", 2)
	wstest.Eventually(t, "only the session's connection is left", func() bool {
		l := r.stats().Leaving
		return len(l) == 1 && l[0].URL == a.URL() && l[0].Leased == 1 && a.Stats().Connections == 1
	})
	session.echo("on the old one")
	other := r.join("/stt")
	other.echo("on the new one")
	if s := r.backend("gpu"); s.URL != b.URL() || s.Leased != 1 {
		t.Errorf("the new session is not on the new server: %+v", s)
	}
	session.leave()
	other.leave()
	r.settled()
	if n := a.Stats().Connections; n != 0 {
		t.Errorf("the old server has %d connections", n)
	}
}

// A backend that is removed and added again while its session runs has its pool again.
func TestRemoveAndAddAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	r.serve("a", a.URL(), 2)
	session, before := r.join("/stt"), r.member("stt", "a")
	r.apply(func(c *config.Content) { delete(c.Backends, "a") })
	if l := r.stats().Leaving; len(l) != 1 || l[0].Leased != 1 || len(r.stats().Backends) != 0 {
		t.Errorf("leaving: %+v", l)
	}
	session.echo("while it leaves")
	r.apply(func(c *config.Content) { putBackend(c, "again", "stt", a.URL(), 2, nil) })
	if got := r.member("stt", "again"); got != before {
		t.Error("it is another pool")
	}
	wstest.Eventually(t, "it has its connections again", func() bool { s := r.backend("again"); return s.Idle == 1 && s.Leased == 1 })
	session.echo("after it came back")
	session.leave()
	r.idle("again", 2)
}

// What an operator wants of a backend: sessions continue in every state, and begin only where it is enabled.
func TestStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 3)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Queue = 0 })
		putBackend(c, "a", "stt", a.URL(), 3, nil)
	})
	r.idle("a", 3)
	session := r.join("/stt")
	for _, c := range []struct {
		state string
		idle  int
		open  bool
	}{{"draining", 2, false}, {"enabled", 2, true}, {"disabled", 0, false}, {"draining", 0, false}, {"enabled", 2, true}} {
		r.apply(func(content *config.Content) { setState(content, "a", c.state) })
		wstest.Eventually(t, c.state, func() bool {
			s := r.backend("a")
			return s.State == c.state && s.Idle == c.idle && s.Leased == 1 && s.Dialing+s.Retiring == 0
		})
		session.echo(c.state)
		other, _ := r.ask("/stt", "")
		if open := other != nil; open != c.open {
			t.Errorf("%s: a session begins: %v", c.state, open)
		}
		if other != nil {
			other.leave()
		}
	}
	session.leave()
	r.idle("a", 3)
}

// The same configuration again changes nothing.
func TestApplyAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	r.apply(func(c *config.Content) {
		c.Profiles["own"] = config.Profile{YAML: "from: echo\n"}
		putService(c, "stt", func(s *config.Service) { s.Profile = "own" })
		putBackend(c, "a", "stt", a.URL(), 2, func(b *config.Backend) {
			b.Labels = map[string]string{"zone": "a"}
			b.Headers = map[string]string{"X-Model": "large"}
		})
	})
	r.idle("a", 2)
	plan, before := r.services.desired.services["stt"].byName["a"], r.member("stt", "a")
	for range 3 {
		r.apply(func(*config.Content) {})
	}
	if r.services.desired.services["stt"].byName["a"] != plan || r.member("stt", "a") != before {
		t.Error("the backend was changed")
	}
	r.idle("a", 2)
	if n := a.Stats().Accepted; n != 2 {
		t.Errorf("%d connections were dialed; want 2", n)
	}
}
