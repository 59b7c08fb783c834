package sim

import (
	"net/http"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Admit answers upgrade requests with the status that it wants.
func TestAdmit(t *testing.T) {
	s := start(t, Options{Admit: func(r *http.Request) int {
		if r.URL.Query().Get("key") == "bad" {
			return http.StatusUnauthorized
		}
		return 0
	}})
	dial(t, s)
	_, response := request(t, s, wstest.UpgradeRequest("/?key=bad"))
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", response.Status)
	}
	if got, want := s.Stats(), (Stats{Connections: 1, Peak: 1, Accepted: 1, Refused: 1}); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// Heard is told of the marks in what clients send, whatever the protocol makes of them.
func TestHeard(t *testing.T) {
	heard := make(chan uint64, 10)
	s := start(t, Options{Protocol: Echo, Heard: func(session uint64) { heard <- session }})
	c := dial(t, s)
	audio := AppendMark(AppendMark(nil, Mark{Session: 7, Seq: 1}, 1), Mark{Session: 9, Seq: 1}, 1)
	for _, piece := range [][]byte{audio[:20], audio[20:]} { // in the middle of a mark
		if err := c.Write(wstest.Context(t), websocket.MessageBinary, piece); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(wstest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := []uint64{<-heard, <-heard}; !slices.Equal(got, []uint64{7, 9}) {
		t.Errorf("got %d", got)
	}
}
