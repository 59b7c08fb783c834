package config

import "testing"

func TestOriginWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Service)
		want int // warnings
		more int // if listeners ask for certificates
	}{
		"nothing":                 {func(*Service) {}, 0, 1},
		"keys in a header":        {func(s *Service) { s.Auth = []string{"keys"} }, 0, 0},
		"keys in a cookie":        {func(s *Service) { s.Auth, s.AuthFrom = []string{"keys"}, []string{"header", "cookie:sid"} }, 1, 0},
		"a cookie without auth":   {func(s *Service) { s.AuthFrom = []string{"cookie:sid"} }, 0, 1},
		"certificates":            {func(s *Service) { s.Auth = []string{"certificate"} }, 1, 0},
		"another server decides":  {func(s *Service) { s.Auth = []string{"external"} }, 1, 0},
		"origins without auth":    {func(s *Service) { s.AllowOrigin = []string{"https://a"} }, 0, 0},
		"cookies for the servers": {func(s *Service) { s.Pass = []string{"header:cookie"} }, 1, 0},
		"origins are named":       {func(s *Service) { s.Auth, s.AllowOrigin = []string{"certificate"}, []string{"https://a"} }, 0, 0},
		"all origins":             {func(s *Service) { s.Auth, s.AllowOrigin = []string{"certificate"}, []string{"*"} }, 0, 0},
	} {
		content := NewContent()
		service := DefaultService()
		c.set(&service)
		content.Services["stt"] = service
		for asked, want := range map[bool]int{false: c.want, true: c.want + c.more} {
			if got := content.OriginWarnings(asked); len(got) != want {
				t.Errorf("%s, certificates asked for %t: %q", name, asked, got)
			}
		}
	}
}
