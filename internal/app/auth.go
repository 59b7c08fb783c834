package app

import (
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// authentication returns what the statistics say about clients that had to authenticate.
func authentication(s *session.Stats) api.Authentication {
	all := api.Authentication{Results: []api.AuthResult{}, Blocked: s.Guard.Blocked, Suspects: s.Guard.Suspects}
	for _, c := range s.Auth {
		all.Results = append(all.Results, api.AuthResult{Method: c.Method, Result: c.Result.String(), Count: c.Count})
	}
	return all
}
