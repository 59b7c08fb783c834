package health

import "time"

// shareSteps is in how many steps a server that was out of service gets its full share of the clients back.
const shareSteps = 10

// slowStart is the share of its clients that a server gets after it was out of service.
type slowStart struct {
	rising bool    // the share is not full yet
	began  Instant // when the server came back
	steps  int     // of the share: 1 to shareSteps
}

func (s *slowStart) begin(now Instant) { s.rising, s.began = true, now }

// rise sets the share by the time since the server came back; takes is how long it takes until the share is full.
func (s *slowStart) rise(now Instant, takes time.Duration) {
	s.steps = shareSteps
	if s.rising && takes > 0 {
		s.steps = min(1+int(time.Duration(now-s.began)*(shareSteps-1)/takes), shareSteps)
	}
	s.rising = s.steps < shareSteps
}

// Share returns the fraction of its clients that the server gets, above 0 and at most 1.
func (t *Tracker) Share() float64 { return float64(t.slowStart.steps) / shareSteps }
