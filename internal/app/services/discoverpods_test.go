package services

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/session/jobs"
	"github.com/wsbouncer/wsbouncer/internal/testkit/kubetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A pod that is about to end gets no new sessions, and its session moves to another pod immediately. A backend whose URL is changed, or that is
// removed from the configuration, keeps its sessions.
func TestPodsThatEnd(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has no address 127.0.0.2 on its loopback interface")
	}
	port := "0"
	var servers []*sim.Server
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		s, err := sim.Start(sim.Options{Protocol: sim.Vosk, Listen: net.JoinHostPort(ip, port), Sessions: 2})
		if err != nil {
			t.Skipf("the port is taken on the other address: %v", err)
		}
		t.Cleanup(s.Close)
		_, port, _ = net.SplitHostPort(strings.Split(s.URL(), "/")[2])
		servers = append(servers, s)
	}
	n, _ := strconv.Atoi(port)
	api := kubetest.Start(t)
	pods := func(ready, ending string) {
		slice := kubetest.Slice{Namespace: "speech", Name: "stt-a", Service: "stt-servers", Port: n, Ready: []string{ready}}
		if ending != "" {
			slice.Terminating = []string{ending}
		}
		api.Set(slice)
	}
	pods("127.0.0.1", "")
	var r *rig
	moved := make(chan string, 10)
	r = newLoggedRig(t, slog.DiscardHandler, func(o *Options) {
		o.Kubernetes = &discovery.Kubernetes{URL: api.URL, Account: api.Account}
		o.MoveAway = func(b *backend.Backend) {
			r.sessions.MoveAway(b, 0)
			moved <- b.Name()
		}
	})
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Profile, s.Failover = "vosk", "replay" })
		putBackend(c, "gpu", "stt", "ws://stt-servers.speech.svc:"+port, 2, func(b *config.Backend) { b.Discover = config.DiscoverKubernetes })
	})
	first, second := "gpu@127.0.0.1:"+port, "gpu@127.0.0.2:"+port
	r.idle(first, 2)
	for _, d := range r.stats().Discovery {
		if d.Records != "EndpointSlice" || d.Host != "stt-servers.speech.svc" || d.Servers != 1 {
			t.Errorf("the lookup is %+v", d)
		}
	}
	client := wstest.Dial(t, r.address, wstest.UpgradeRequest("/stt"))
	client.ExpectUpgrade()
	client.Send(frame.Text, sessiontest.VoskConfig)
	client.Send(frame.Binary, sessiontest.Chunk(0))
	wstest.Eventually(t, "the first server hears it", func() bool { return servers[0].Stats().Messages >= 2 })

	pods("127.0.0.2", "127.0.0.1")
	if name := wstest.Receive(t, moved, "sessions are to move"); name != first {
		t.Errorf("the sessions of %s move; want those of %s", name, first)
	}
	wstest.Eventually(t, "the session has moved", func() bool {
		m, ok := r.sessions.BackendMoveOrder(first)
		return ok && m.Done && len(m.Sessions) == 1 && m.Sessions[0].State == jobs.Moved && m.Sessions[0].To == second
	})
	wstest.Eventually(t, "the first server is gone", func() bool {
		s := r.stats()
		return len(s.Leaving) == 0 && len(s.Backends) == 1 && s.Backends[0].Leased == 1
	})
	client.Send(frame.Binary, sessiontest.Chunk(1))
	wstest.Eventually(t, "the second server hears both", func() bool { return servers[1].Stats().Messages >= 3 })

	r.apply(func(c *config.Content) {
		putBackend(c, "gpu", "stt", "ws://stt-servers.speech.svc:"+port+"/v2", 2, func(b *config.Backend) { b.Discover = config.DiscoverKubernetes })
	})
	wstest.Eventually(t, "the second server is leaving", func() bool { return len(r.stats().Leaving) == 1 })
	r.apply(func(c *config.Content) {
		delete(c.Backends, "gpu")
		putBackend(c, "other", "stt", servers[0].URL(), 2, nil)
	})
	wstest.Eventually(t, "the second server is leaving", func() bool { return len(r.stats().Leaving) == 1 })
	r.idle("other", 2)
	select {
	case name := <-moved:
		t.Errorf("the sessions of %s move, although only the configuration has changed", name)
	default:
	}
	if l := fmt.Sprint(r.stats().Leaving[0].Name, r.stats().Leaving[0].Leased); l != second+"1" {
		t.Errorf("leaving: %s", l)
	}
}

// A pod that is about to end is left immediately, also while the connections to the one that replaces it are still being dialed.
func TestPodEndsBeforeReplacement(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has no address 127.0.0.2 on its loopback interface")
	}
	ending := startServer(t, 2)
	_, port, _ := net.SplitHostPort(strings.Split(ending.URL(), "/")[2])
	silent, err := net.Listen("tcp", "127.0.0.2:"+port) // the system accepts, and nothing answers
	if err != nil {
		t.Skipf("the port is taken on the other address: %v", err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	n, _ := strconv.Atoi(port)
	api := kubetest.Start(t)
	slice := kubetest.Slice{Namespace: "speech", Name: "stt-a", Service: "stt-servers", Port: n, Ready: []string{"127.0.0.1"}}
	api.Set(slice)
	r := newLoggedRig(t, slog.DiscardHandler, func(o *Options) {
		o.Kubernetes = &discovery.Kubernetes{URL: api.URL, Account: api.Account}
	})
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.DialTimeout = 2 * wstest.Timeout })
		putBackend(c, "gpu", "stt", "ws://stt-servers.speech.svc:"+port, 2, func(b *config.Backend) { b.Discover = config.DiscoverKubernetes })
	})
	first, second := "gpu@127.0.0.1:"+port, "gpu@127.0.0.2:"+port
	r.idle(first, 2)
	slice.Ready = append(slice.Ready, "127.0.0.2")
	api.Set(slice)
	wstest.Eventually(t, "the second is dialed", func() bool { return r.backend(second).Dialing == 2 })
	slice.Ready, slice.Terminating = slice.Ready[1:], slice.Ready[:1]
	api.Set(slice)
	wstest.Eventually(t, "the first leaves", func() bool { return r.member("stt", first) == nil })
	r.services.mu.Lock()
	defer r.services.mu.Unlock()
	if r.services.services["stt"].members[second].warming.IsZero() {
		t.Error("the first has waited for the second")
	}
}
