package health

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lagModel is a server that all sessions share: it does the work of k sessions in time, and what it owes beyond that adds up. Clients always
// wait for a place.
type lagModel struct {
	k        float64
	cap      int
	life     time.Duration // of a session, on average
	noise    float64       // seconds of lag, at most
	random   *rand.Rand
	sessions int
	owed     float64 // seconds
	guard    lagGuard
	now      Instant
	begun    int
	lateNew  int // sessions that began while lag was over the limit
}

func (m *lagModel) second(limit time.Duration) {
	const ticks = 10
	for range ticks {
		ended := 0
		for range m.sessions {
			if m.random.Float64() < 1/(m.life.Seconds()*ticks) {
				ended++
			}
		}
		m.sessions -= ended
		most := m.cap
		if m.guard.ceiling > 0 {
			most = min(most, m.guard.ceiling)
		}
		if n := most - m.sessions; n > 0 {
			m.sessions += n
			m.begun += n
			if m.owed > limit.Seconds() {
				m.lateNew += n
			}
		}
		m.owed = max(0, m.owed+(float64(m.sessions)-m.k)/m.k/ticks)
	}
	m.now += Instant(time.Second)
	lag := time.Duration((m.owed + m.noise*m.random.Float64()) * float64(time.Second))
	m.guard.read(&LagReading{Limit: limit, Lag: lag, InUse: m.sessions, Cap: m.cap}, lag > limit, m.now)
}

func TestLagGuardModel(t *testing.T) {
	for _, life := range []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute} {
		for _, k := range []float64{16, 8.5, 100, 3} {
			for _, noise := range []float64{0, 0.3} {
				m := &lagModel{k: k, cap: int(k * 1.5), life: life, noise: noise, random: rand.New(rand.NewPCG(1, 2))}
				const limit = 2 * time.Second
				least, most, over, sum := 1000, 0, 0, 0
				for s := range 40 * 60 {
					m.second(limit)
					if s < 10*60 {
						continue
					}
					least, most = min(least, m.sessions), max(most, m.sessions)
					sum += m.sessions
					if m.owed > 2 {
						over++
					}
				}
				t.Logf("life %v k %v noise %v: sessions %d..%d mean %.1f, %d s over, late new %d of %d; %+v", life, k, noise, least, most, float64(sum)/1800, over, m.lateNew, m.begun, m.guard.probe)
			}
		}
	}
}
