package verify

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Crowd is many sessions, several at a time, through a proxy in front of the server, or of several of the same kind.
type Crowd struct {
	// Through is the proxy. Options.Target is the server itself.
	Through *handshake.Target
	// Sessions is how many are held, and Clients how many at a time.
	Sessions, Clients int
	// Leaving is the share of sessions that are left before their end, in each of the manners.
	Leaving float64
	// Begin is called when the direct sessions are over and the crowd comes; nil for nothing.
	Begin func()
}

// CrowdReport is what has become of a crowd's sessions.
type CrowdReport struct {
	// Same had the final results of direct sessions with their recordings, letter by letter but for what differs between direct sessions, and Words
	// only their words. Left were left early.
	Same  int `json:"same"`
	Words int `json:"words,omitempty"`
	Left  int `json:"left,omitempty"`
	// Foreign are the sessions with words that direct sessions have only with other recordings, Other those with other words, and Lost those that did
	// not come to their end: how or why.
	Foreign []string `json:"foreign,omitempty"`
	Other   []string `json:"other,omitempty"`
	Lost    []string `json:"lost,omitempty"`
}

// Held is how many sessions were held to their end.
func (c *CrowdReport) Held() int {
	return c.Same + c.Words + len(c.Foreign) + len(c.Other) + len(c.Lost)
}

// crowd is a crowd under way.
type crowd struct {
	Crowd
	mu     sync.Mutex
	report CrowdReport
	next   int // session
}

// RunCrowd holds direct sessions with each recording, and then the crowd's, each with one of the recordings, and compares. The error says that a
// direct session failed.
func RunCrowd(ctx context.Context, o Options, c Crowd) (*CrowdReport, error) {
	o.Connections = 1 << 30
	direct := newRun(ctx, o)
	err := direct.sessions()
	direct.hang()
	if err != nil {
		return nil, err
	}
	if c.Begin != nil {
		c.Begin()
	}
	all := &crowd{Crowd: c}
	var clients sync.WaitGroup
	for i := range c.Clients {
		clients.Go(func() { all.client(direct, rand.New(rand.NewPCG(o.Seed, uint64(2+i)))) })
	}
	clients.Wait()
	return &all.report, context.Cause(ctx)
}

// client holds one session after the other.
func (c *crowd) client(direct *run, dice *rand.Rand) {
	// The runs share what direct sessions have shown; what further ones show is each client's own.
	control := newRun(direct.ctx, direct.Options)
	control.dice, control.volatile, control.united = dice, maps.Clone(direct.volatile), direct.united
	control.words = words{maps.Clone(direct.words.heard), direct.words.differ}
	for _, o := range direct.direct {
		control.direct = append(control.direct, new(*o))
	}
	through := newRun(direct.ctx, direct.Options)
	through.dice, through.Target = dice, c.Through
	for direct.ctx.Err() == nil {
		c.mu.Lock()
		n := c.next
		c.next++
		c.mu.Unlock()
		if n > 0 && n%50 == 0 && n < c.Sessions {
			direct.Progress(fmt.Sprintf("%d of %d sessions have begun", n, c.Sessions))
		}
		if n >= c.Sessions {
			return
		}
		c.session(control, through, n%len(direct.Recordings))
		control.hang()
		through.hang()
	}
}

// session holds a session with a recording.
func (c *crowd) session(control, through *run, i int) {
	recording, leaves := through.Recordings[i], through.dice.Float64() < c.Leaving
	o := speaker.Options{}
	if leaves {
		m := manners[1+through.dice.IntN(len(manners)-1)]
		o = m.options(through, recording)
	}
	through.united = control.united
	through.begin("session with recording %d", i+1)
	got, err := through.holdDirect(recording, o)
	text := ""
	if err == nil && !leaves {
		text = control.explain(got.outcome, i)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case control.ctx.Err() != nil:
	case leaves && err == nil:
		c.report.Left++
	case err != nil:
		c.report.Lost = append(c.report.Lost, fmt.Sprintf("recording %d: %v", i+1, err))
	case text == "":
		c.report.Same++
	case got.words() == control.direct[i].words():
		c.report.Words++
	case control.foreign(got.outcome, i) != "":
		c.report.Foreign = append(c.report.Foreign, fmt.Sprintf("recording %d: %s", i+1, text))
	default:
		c.report.Other = append(c.report.Other, fmt.Sprintf("recording %d: %s", i+1, text))
	}
}
