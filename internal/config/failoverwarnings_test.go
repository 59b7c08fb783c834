package config

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// What a service asks for, and its profile cannot do, is said with the reason.
func TestFailoverWarnings(t *testing.T) {
	for _, c := range []struct {
		profile string
		change  func(*Service)
		want    []string
	}{
		{"vosk", func(*Service) {}, nil},
		{"one-shot", func(s *Service) { s.Failover = "off" }, nil},
		{"one-shot", func(*Service) {}, []string{"sessions of the profile one-shot cannot be moved: nothing is known about the server"}},
		{"funasr", func(*Service) {}, []string{"which clients of the profile funasr can tell: words at the place"}},
		{"deepgram", func(*Service) {}, []string{"by the profile deepgram the audio is compressed or in a container unless the client says otherwise"}},
		{"vosk", func(s *Service) { s.ReplayWindow = 4900 * time.Millisecond }, []string{"has a replay-window of 4.9s, but many utterances are longer"}},
		{"one-shot", func(s *Service) { s.ReplayWindow = time.Second }, []string{"cannot be moved"}},
		{"whisperlivekit", func(s *Service) { s.Failover, s.StallTimeout = "off", time.Second }, []string{"nothing in the profile whisperlivekit tells a stalled server"}},
		{"vosk", func(s *Service) { s.StallTimeout = time.Second }, nil},
		{"vosk", func(s *Service) { s.Failover, s.LagLimit = "off", time.Second }, nil},
		{"one-shot", func(s *Service) { s.Failover, s.LagLimit = "off", time.Second }, []string{"nothing in the profile one-shot tells how late results come"}},
		{"funasr", func(s *Service) { s.Failover, s.LagLimit = "off", time.Second }, []string{"nothing in the profile funasr tells how late results come"}},
		{"cartesia", func(s *Service) { s.Failover, s.LagLimit = "off", time.Second }, []string{"nothing in the profile cartesia tells how late results come"}},
		{"whisperlive", func(s *Service) { s.Failover, s.LagLimit = "off", time.Second }, nil},
		{"vosk", func(s *Service) { s.TellClients = true }, []string{"has tell-clients, but the profile vosk has no messages for clients"}},
		{"whisperlive", func(s *Service) { s.Failover, s.TellClients = "off", true }, nil},
	} {
		p, err := profile.Named(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		s := DefaultService()
		s.Profile, s.Failover = c.profile, "replay"
		c.change(&s)
		got := s.failoverWarnings("stt", p)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q; want %q", c.profile, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) || !strings.HasPrefix(got[i], "the service stt has ") {
				t.Errorf("%s: %q; want %q", c.profile, got[i], want)
			}
		}
	}
}
