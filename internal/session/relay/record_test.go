package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The one line about a session says everything about it, and the statistics add up.
func TestRecord(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	want := meter.Relayed{}
	for i, c := range []struct {
		frames, size int
		code         frame.CloseCode
	}{{3, 100, 4000}, {5, 70_000, 1000}, {0, 0, 4000}} {
		begun := time.Now()
		p := r.Join()
		p.Send(frame.Ping, "not counted")
		p.Expect(frame.Pong, "not counted")
		for j := range c.frames {
			payload := string(wstest.Noise(byte(j), c.size))
			p.Send(frame.Binary, payload)
			p.Expect(frame.Binary, payload)
		}
		client := p.LocalAddr().String()
		p.SendClose(c.code, "why not")
		p.ExpectClose(c.code, "why not")
		p.ExpectEnd()
		_ = p.Close()
		a := r.Record()
		took := time.Since(begun)
		frames, bytes := uint64(c.frames), uint64(c.frames*c.size)
		for name, value := range map[string]any{
			"id": record.ID{Process: r.Shared.Process, Number: uint64(i + 1)}.String(), "service": "test", "backend": r.Script.Target().URL, "client": client,
			"frames_from_client": frames, "bytes_from_client": bytes,
			"frames_from_backend": frames, "bytes_from_backend": bytes,
			"by": "client", "code": int64(c.code), "reason": "why not", "connection_fate": "returned",
		} {
			if got := a[name].Any(); got != value {
				t.Errorf("session %d: %s is %v; want %v", i, name, got, value)
			}
		}
		if waited, lasted := a["waited"].Duration(), a["lasted"].Duration(); waited < 0 || lasted <= 0 || waited+lasted > took {
			t.Errorf("session %d: waited %v and lasted %v; all took %v", i, waited, lasted, took)
		}
		want.Add(meter.Relayed{FramesFromClients: frames, BytesFromClients: bytes, FramesFromBackends: frames, BytesFromBackends: bytes})
	}
	s := r.stats()
	if got := s.Meters.Total.Relayed; got != want {
		t.Errorf("relayed %+v; want %+v", got, want)
	}
	if s.Active != 0 || s.Total != 3 || len(s.Ended) != 2 || s.Ended[4000] != 2 || s.Ended[1000] != 1 {
		t.Errorf("stats: %+v", s)
	}
}
