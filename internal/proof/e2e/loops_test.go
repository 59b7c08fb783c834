//go:build unix

package e2e

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestLoopsFollowLoad loads the proxy until a second event loop wakes, with sessions moving to it, and then lets go until
// one is enough again. Meanwhile the bench command checks that no message of other sessions is lost or mixed up. It does
// not run in parallel: other tests would take the processors away.
func TestLoopsFollowLoad(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("with one processor a second event loop has nothing to run on")
	}
	const loaders, others = 8, 20
	backend := wstest.StartLibraryServer(t, func(c *gorilla.Conn) error {
		kind, m, err := c.ReadMessage()
		if err != nil || string(m) != "load" {
			if err == nil {
				err = c.WriteMessage(kind, m)
			}
			if err == nil {
				err = wstest.LibraryEcho(c)
			}
			return err
		}
		buf := make([]byte, 256<<10)
		for err == nil {
			_, err = c.NetConn().Read(buf)
		}
		return err
	})
	p := startReady(t, "--backend", backend.URL, "--connections", "40", "--loops", "2")
	if s := p.settle(); s.Loops.Awake != 1 || s.Loops.Moved != 0 {
		t.Errorf("at rest: %+v", s.Loops)
	}
	bench := startChild(t, "bench", p.url("/"), "--connections", "20", "--rate", "20", "--size", "512", "--text",
		"--duration", "1m", "--drain", "20s", "--json", "--quiet")
	wstest.Eventually(t, "the bench has begun", func() bool { return p.stats().Sessions.Active == others })

	// Text that is not ASCII is what costs the proxy most, and neither sending nor dropping it costs others much.
	wire := masked(ws.NewTextFrame(content(gorilla.TextMessage, 1<<20)))
	var loading sync.WaitGroup
	var clients []*rawClient
	for range loaders {
		c := dialRaw(t, p.url("/"))
		c.send(ws.NewTextFrame([]byte("load")))
		clients = append(clients, c)
		loading.Go(func() {
			for {
				if _, err := c.nc.Write(wire); err != nil {
					return
				}
			}
		})
	}
	// What one loop was given on average: a second one wakes up only if it is much of a processor all the time.
	begun, moved, busy, looks := time.Now(), false, 0.0, 0.0
	wstest.Eventually(t, "a second loop is awake and has sessions", func() bool {
		l := p.stats().Loops
		busy, looks = busy+l.Loops[0].Busy, looks+1
		moved = l.Awake == 2 && l.Moved > 0
		return moved || busy < 0.8*looks && time.Since(begun) > wstest.Timeout/3
	})
	for _, c := range clients {
		c.reset()
	}
	loading.Wait()
	if !moved {
		bench.signal(syscall.SIGKILL)
		bench.ended()
		t.Skipf("others have the processors: the proxy was given %.0f%% of one on average", 100*busy/looks)
	}
	bench.signal(syscall.SIGINT)
	bench.wait(0)
	var result struct{ Connected, Sent, Received, Lost, Mixed, Failed int }
	if err := json.Unmarshal([]byte(strings.Join(bench.stdout.Lines(), "\n")), &result); err != nil {
		t.Fatal(err)
	}
	if result.Connected != others || result.Sent == 0 || result.Received != result.Sent || result.Lost+result.Mixed+result.Failed > 0 {
		t.Errorf("the sessions beside the load: %+v", result)
	}
	wstest.Eventually(t, "one loop is enough again", func() bool { return p.stats().Loops.Awake == 1 })
	p.settle()
	c := dialRaw(t, p.url("/"))
	c.echo("after all that")
	c.close(1000, "")
}
