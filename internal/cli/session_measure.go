package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// measured returns sessions with their rates and lags. The proxy measures those only while somebody watches: the second list of the
// stream of events is the first that has rates, and the third the first that has lags, which count from the second.
func measured(ctx context.Context, proxy *client.Client, query api.SessionQuery) (list api.SessionList, err error) {
	if query.State == api.StateEnded {
		return list, usageError(fmt.Errorf("--sort: %s is not measured for sessions that have ended: use another order", query.Sort))
	}
	if query.Limit == 0 || query.Limit > api.MaxEventSessions {
		query.Limit = api.MaxEventSessions
	}
	stream, err := proxy.Stream(ctx, api.EventsPath, api.EventQuery{IntervalSeconds: api.MinEventInterval, SessionQuery: query}.Values(), 10*time.Second)
	if err != nil {
		return list, err
	}
	defer stream.Close()
	needed := 2
	if query.Sort == "lag" {
		needed = 3
	}
	for lists := 0; lists < needed; {
		name, data, err := stream.Event()
		switch {
		case errors.Is(err, io.EOF):
			return list, fmt.Errorf("the proxy at %s ended the stream of events", proxy.Address())
		case err != nil:
			return list, err
		case name != api.EventSessions:
			continue
		}
		lists++
		list = api.SessionList{}
		if err := json.Unmarshal(data, &list); err != nil {
			return list, fmt.Errorf("cannot read the events of the proxy at %s: %w", proxy.Address(), err)
		}
	}
	return list, nil
}
