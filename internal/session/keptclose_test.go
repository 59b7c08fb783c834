package session

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/replay"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// A client that closes behind a message that its server does not take is noticed although nothing is read of it any more: its lease ends, and
// it gets its close frame back. A server that takes the message within close-timeout gets it.
func TestCloseBehindMessageThatWaits(t *testing.T) {
	for name, failover := range map[string]bool{"": false, "with failover": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{
				profile: "speechmatics", script: new(wstest.Server), cap: 1, queue: 1,
				service: func(s *Service) {
					s.CloseTimeout, s.QueueTimeout = 20*time.Millisecond, wstest.Timeout
					s.Failover, s.ReplayWindow = failover, 15*time.Second
				},
				options: func(o *Options) { o.Replay = replay.NewArena(1 << 20) },
			})
			client := r.join()
			server := r.script.Take()
			start := `{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16000}}`
			client.SendBytes(client.Encode(true, frame.Text, []byte(start)), client.Encode(true, frame.Binary, make([]byte, 3000)),
				client.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "bye")))
			server.Expect(frame.Text, start)
			client.ExpectClose(frame.NormalClosure, "bye")
			wstest.Eventually(t, "the lease has ended", func() bool { return r.backends[0].Stats().Leased == 0 })
			_ = client.Close()
		})
	}
}
