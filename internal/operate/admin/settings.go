package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Settings are those of the process. Both functions are nil where they cannot be had; they may be called from any goroutine.
type Settings struct {
	// List returns them as they are in force.
	List func() api.SettingList
	// Reload reads them again, as SIGHUP has the process do. The error says what is wrong with them: nothing has changed then.
	Reload func(ctx context.Context) (api.Reloaded, error)
}

// reloadTimeout is how long reading the settings may take: a file may never answer.
const reloadTimeout = 20 * time.Second

// settingsRoutes returns GET /api/v1/settings and POST /api/v1/settings/reload.
func (s *Source) settingsRoutes() []route {
	return []route{
		{path: api.SettingsPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			if s.Settings.List == nil {
				return api.SettingList{Settings: []api.Setting{}}, nil
			}
			return s.Settings.List(), nil
		})}},
		{path: api.ReloadPath, action: "reload", methods: methods{http.MethodPost: served(s.reload)}},
	}
}

// reload reads the settings again, and notes that in the audit log.
func (s *Source) reload(w http.ResponseWriter, r *http.Request) (any, error) {
	order, err := readOrder(w, r)
	if err != nil {
		return nil, err
	}
	if s.Settings.Reload == nil {
		return nil, WrongState("this process has no settings that it could read again")
	}
	ctx, cancel := context.WithTimeout(r.Context(), reloadTimeout)
	defer cancel()
	reloaded, err := s.Settings.Reload(ctx)
	if err != nil {
		return nil, WrongState("no setting was changed: %v", err)
	}
	s.Audit.Note(r, "reload", reloaded.File, order, fmt.Sprintf("settings changed: %d", len(reloaded.Changes)))
	return reloaded, nil
}
