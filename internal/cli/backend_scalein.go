package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// scaleIn lists the servers of some backends, the one to empty first first.
func (t *target) scaleIn(ctx context.Context, names []string) (*rows, []json.RawMessage, error) {
	if t.proxy == nil {
		return nil, nil, usageError(errors.New("--sort scale-in needs a running proxy: use --admin instead of --database, or both"))
	}
	var all []api.BackendInUse
	if err := t.proxy.API().Get(ctx, api.BackendsPath, url.Values{"sort": {api.BackendsScaleIn}}, &all); err != nil {
		return nil, nil, err
	}
	r := &rows{heads: []string{"NAME", "SERVICE", "STATE", "SESSIONS", "ELSEWHERE", "LEFT", "EMPTY IN", "MOVES"}}
	forPrograms := []json.RawMessage{}
	for i := range all {
		b := &all[i]
		if !slices.Contains(names, cmp.Or(b.DiscoveredFrom, b.Name)) {
			continue
		}
		state := b.State
		if state == "enabled" && !b.Usable {
			state = "out of service"
		}
		moves := "no"
		if b.Moves {
			moves = "yes"
		}
		r.names = append(r.names, b.Name)
		r.cells = append(r.cells, []string{
			b.Name, b.Service, state, strconv.Itoa(b.Sessions), strconv.Itoa(b.SessionsElsewhere),
			figures.Seconds(b.RemainingSeconds), figures.Seconds(b.LongestSeconds), moves,
		})
		text, err := json.Marshal(b)
		if err != nil {
			return nil, nil, err
		}
		forPrograms = append(forPrograms, text)
	}
	return r, forPrograms, nil
}
