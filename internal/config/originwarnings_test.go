package config

import "testing"

func TestOriginWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Service)
		want int
	}{
		"nothing":                 {func(*Service) {}, 0},
		"keys in a header":        {func(s *Service) { s.Auth = []string{"keys"} }, 0},
		"keys in a cookie":        {func(s *Service) { s.Auth, s.AuthFrom = []string{"keys"}, []string{"header", "cookie:sid"} }, 1},
		"a cookie without auth":   {func(s *Service) { s.AuthFrom = []string{"cookie:sid"} }, 0},
		"certificates":            {func(s *Service) { s.Auth = []string{"certificate"} }, 1},
		"another server decides":  {func(s *Service) { s.Auth = []string{"external"} }, 1},
		"cookies for the servers": {func(s *Service) { s.Pass = []string{"header:cookie"} }, 1},
		"origins are named":       {func(s *Service) { s.Auth, s.AllowOrigin = []string{"certificate"}, []string{"https://a"} }, 0},
		"all origins":             {func(s *Service) { s.Auth, s.AllowOrigin = []string{"certificate"}, []string{"*"} }, 0},
	} {
		content := NewContent()
		service := DefaultService()
		c.set(&service)
		content.Services["stt"] = service
		snapshot := &Snapshot{content: content}
		if got := snapshot.OriginWarnings(); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
