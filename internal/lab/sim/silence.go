package sim

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// silence ends a connection whose client sends nothing for too long, as the real server does.
type silence struct {
	conn  *conn
	limit time.Duration // 0 for none
	heard loop.Instant  // the last message
	timer loop.Timer
}

func (s *silence) start() {
	if s.limit > 0 {
		s.heard = loop.Now()
		s.timer.Set(s.conn.socket, s.limit, timerSilence)
	}
}

func (s *silence) stop() { s.timer.Stop() }

// broken records that the client sent something.
func (s *silence) broken() {
	if s.limit > 0 {
		s.heard = loop.Now()
	}
}

func (s *silence) judge() {
	if left := s.heard.After(s.limit).Until(); left > 0 {
		s.timer.Set(s.conn.socket, left, timerSilence)
		return
	}
	k := s.conn
	if k.server.stalled.Load() { // it watches no clock
		s.timer.Set(k.socket, s.limit, timerSilence)
		return
	}
	if silent, ok := k.replies.dialogue.(interface{ silent(v *voice) }); ok && !k.stalled && !k.dead {
		silent.silent(&k.replies.voice)
		k.replies.speak()
	}
	k.flush()
}
