package relay

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// tapAtRandom starts and ends taps of sessions that run and of those that begin, some of which are read slowly or not at all, until
// stopped. events counts what they have shown.
func (r *rig) tapAtRandom(events *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range 4 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		readers.Go(func() {
			for ctx.Err() == nil {
				o := tap.Options{First: 1 + random.IntN(5), Text: random.IntN(200)}
				if ids := r.sessions.IDs(); len(ids) > 0 && random.IntN(4) > 0 {
					o.ID = ids[random.IntN(len(ids))]
				}
				tap, err := r.sessions.Tap(o)
				if err != nil { // the session has ended meanwhile
					continue
				}
				short, done := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Millisecond)
				for reads := random.IntN(100); reads > 0; reads-- {
					all, more, err := tap.Next(short)
					events.Add(int64(len(all)))
					if err != nil || !more {
						break
					}
				}
				done()
				tap.Close()
			}
		})
	}
	return func() { cancel(); readers.Wait() }
}

// Taps that come and go while sessions stream, and move between event loops, change no byte.
func TestTapsChangeNoByte(t *testing.T) {
	var events atomic.Int64
	streamWhileMoving(t, func(r *rig) (stop func()) { return r.tapAtRandom(&events) })
	if events.Load() == 0 {
		t.Error("the taps have shown nothing")
	}
}

// Taps that come and go while many short sessions end in every way change no answer and no book.
func TestTapsWhileSessionsEnd(t *testing.T) {
	if tapAll {
		t.Skip("there is a tap on each session already")
	}
	const clients, sessions = 6, 40
	r := newRig(t, setup{Profile: "echo", Cap: 3, Loops: 2, Queue: clients, Script: &wstest.Server{Serve: wstest.Echo}})
	var events atomic.Int64
	stop := r.tapAtRandom(&events)
	_, stopMoving := r.mover()
	var tasks sync.WaitGroup
	for i := range clients {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		tasks.Go(func() {
			for range sessions {
				p := r.Connect(wstest.UpgradeRequest("/v1/test"))
				p.ExpectUpgrade()
				for range random.IntN(4) {
					p.Ask("hello")
				}
				switch random.IntN(5) {
				case 0:
					p.CloseNormally()
				case 1:
					_ = p.Close()
				case 2:
					p.Reset()
				case 3: // in the middle of a frame
					p.SendBytes(p.Encode(true, frame.Text, []byte("never mind"))[:9])
					_ = p.Close()
				case 4: // no masked frame
					p.SendBytes([]byte{0x81, 1, 'x'})
					_, _, _ = p.Next()
					_ = p.Close()
				}
			}
		})
	}
	tasks.Wait()
	stopMoving()
	stop()
	if events.Load() == 0 {
		t.Error("the taps have shown nothing")
	}
	wstest.Eventually(t, "no session is tapped", func() bool {
		tapped := 0
		r.each(func(s *Session) {
			tapped += s.tap.Count()
		})
		all, seeking := r.sessions.taps.Counts()
		return tapped == 0 && all == 0 && seeking == 0
	})
}
