package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Clients of three vLLM-Omni servers resume their sessions, which only the server knows that began them. When it is gone, another says so.
func TestResumedSessions(t *testing.T) {
	content := config.NewContent()
	set := func(kind config.Kind, name string, values config.Values) {
		t.Helper()
		if problems := content.Set(kind, name, values); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	set(config.KindService, "talk", config.Values{"path": "/v1/realtime", "profile": "vllm-omni"})
	servers := make(map[string]*sim.Server)
	for i := range 3 {
		server, err := sim.Start(sim.Options{Protocol: sim.VLLMOmni, Seed: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		name := fmt.Sprint("gpu-", i)
		servers[name] = server
		set(config.KindBackend, name, config.Values{"service": "talk", "url": server.URL(), "connections": "8"})
	}
	s := newStack(t)
	defer func() { s.proxy.Shutdown() }()
	if _, err := s.proxy.store.Apply(t.Context(), config.Change{Who: "test", Expect: "0", Content: &content}); err != nil {
		t.Fatal(err)
	}
	// talk begins a session with a message, and returns the server's answer, and what it answers to a commit if it has begun.
	talk := func(message string) (event, response string) {
		t.Helper()
		client, _, err := websocket.DefaultDialer.Dial("ws://"+s.proxy.Addresses()[0].String()+"/v1/realtime?duplex=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		_ = client.SetReadDeadline(wstest.Deadline())
		say := func(message string) {
			if err := client.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
				t.Fatal(err)
			}
		}
		hear := func() string {
			_, b, err := client.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		say(message)
		event = hear()
		if strings.Contains(event, `"type":"error"`) {
			return event, ""
		}
		say(`{"type":"input_audio_buffer.commit"}`)
		for !strings.Contains(response, `"type":"response.done"`) {
			response = hear()
		}
		return event, response
	}
	wstest.Eventually(t, "the service is there", func() bool {
		stats := s.proxy.Stats()
		i := slices.IndexFunc(stats.Services, func(v api.Service) bool { return v.Name == "talk" && v.Affinity != nil })
		return i >= 0 && len(stats.Backends) == 3
	})
	affinity := func() api.ServiceAffinity {
		stats := s.proxy.Stats()
		return *stats.Services[0].Affinity
	}
	type resumable struct {
		Session struct {
			ID string `json:"id"`
		} `json:"session"`
		Token string `json:"resume_token"`
	}
	sessions := make([]resumable, 6)
	resume := func(r resumable) string {
		return fmt.Sprintf(`{"type":"session.resume","session_id":"%s","resume_token":"%s","last_received_server_event_seq":0}`, r.Session.ID, r.Token)
	}
	leases := func(name string) uint64 {
		stats := s.proxy.Stats()
		return stats.Backends[slices.IndexFunc(stats.Backends, func(b api.Backend) bool { return b.Name == name })].Totals.Leased
	}
	for i := range sessions {
		event, _ := talk(fmt.Sprintf(`{"type":"session.update","session":{"instructions":"words-%d"}}`, i))
		if err := json.Unmarshal([]byte(event), &sessions[i]); err != nil || sessions[i].Session.ID == "" {
			t.Fatalf("%s: %v", event, err)
		}
	}
	type host struct {
		name   string
		server *sim.Server
		begun  uint64
	}
	var begun []host // the server with most of them first
	for name, server := range servers {
		begun = append(begun, host{name, server, leases(name)})
	}
	slices.SortFunc(begun, func(a, b host) int { return cmp.Compare(b.begun, a.begun) })
	for range 3 {
		for i, r := range sessions {
			event, response := talk(resume(r))
			if !strings.Contains(event, `"type":"session.resumed"`) || !strings.Contains(response, fmt.Sprintf("words-%d", i)) {
				t.Errorf("session %d: %s, %s", i, event, response)
			}
		}
	}
	if a := affinity(); a != (api.ServiceAffinity{Hits: 18, IDs: 6}) {
		t.Errorf("%+v", a)
	}
	if event, _ := talk(resume(resumable{})); !strings.Contains(event, "session_resume_expired") {
		t.Errorf("an unknown session: %s", event)
	}
	begun[0].server.Kill()
	wstest.Eventually(t, "the loss of its connections is seen", func() bool {
		stats := s.proxy.Stats()
		return !slices.ContainsFunc(stats.Backends, func(b api.Backend) bool { return b.Name == begun[0].name && b.Idle > 0 })
	})
	lost := 0
	for _, r := range sessions {
		if event, _ := talk(resume(r)); !strings.Contains(event, `"type":"session.resumed"`) {
			lost++
		}
	}
	if a := affinity(); uint64(lost) != begun[0].begun || a.Gone != uint64(lost) || a.Misses != 0 {
		t.Errorf("%d sessions were lost with their server, which had %d: %+v", lost, begun[0].begun, a)
	}
}
