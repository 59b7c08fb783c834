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

// measured returns sessions with their rates. The proxy measures those only while a client watches: the second list of the stream of events is
// the first that has them.
func measured(ctx context.Context, proxy *client.Client, query api.SessionQuery) (list api.SessionList, err error) {
	if query.Limit == 0 || query.Limit > api.MaxEventSessions {
		query.Limit = api.MaxEventSessions
	}
	stream, err := proxy.Stream(ctx, api.EventsPath, api.EventQuery{IntervalSeconds: api.MinEventInterval, SessionQuery: query}.Values(), 10*time.Second)
	if err != nil {
		return list, err
	}
	defer stream.Close()
	for lists := 0; lists < 2; {
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
