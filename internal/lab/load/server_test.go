package load

import (
	"net/http"
	"sync/atomic"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// hesitant echoes on its first two connections, and lets the other clients wait for the answer to their upgrade.
func hesitant(stop <-chan struct{}) http.HandlerFunc {
	var upgrader websocket.Upgrader
	var requests atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 2 {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer c.Close()
			_ = wstest.LibraryEcho(c)
		}
	}
}

// vanishing ends its first two connections without a word. It lets every other client wait for an answer: until the next one
// asks, or, if it is silent, for ever.
func vanishing(silent bool) http.HandlerFunc {
	var upgrader websocket.Upgrader
	var requests atomic.Int64
	var last atomic.Pointer[chan struct{}]
	return func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= 2 {
			if c, err := upgrader.Upgrade(w, r, nil); err == nil {
				_ = c.Close()
			}
			return
		}
		next := make(chan struct{})
		if before := last.Swap(&next); before != nil && !silent {
			close(*before)
		}
		select {
		case <-next:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
