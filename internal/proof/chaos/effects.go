package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// An attack that never takes effect proves nothing, and neither does one that the proxy only resets. So the proofs count what becomes of
// hostile clients' visits, and judge what most of them come to.

// visits is what became of the visits of hostile clients of one kind.
type visits struct {
	Came    int64 // had a connection
	Entered int64 // began a session
	Refused int64 // got another answer to their upgrade request
	Right   int64 // ended as the attack wants it
	Failed  int64 // ended otherwise, such as with a reset
}

// answered takes in the status line of an answer to an upgrade request; it is empty if none came.
func (v *visits) answered(status string) {
	switch {
	case strings.HasSuffix(status, " 101"):
		v.Entered++
	case status != "":
		v.Refused++
	}
}

// ended takes in what a visit returned.
func (v *visits) ended(err error) {
	if err == nil {
		v.Right++
	} else {
		v.Failed++
	}
}

// judge returns an error if there was no visit, or if most did not come to what they must.
func (v visits) judge(by effect) error {
	switch {
	case v.Came == 0:
		return errors.New("no hostile client came")
	case by != nil:
		return by(v)
	}
	return nil
}

// effect returns an error if most visits did not come to what they must. What they come to depends on the attack alone, not on how fast the machine is.
type effect func(v visits) error

// enters wants sessions to begin.
func enters(v visits) error {
	if v.Entered <= v.Refused {
		return fmt.Errorf("%d hostile clients began a session, and %d were refused", v.Entered, v.Refused)
	}
	return nil
}

// someEnter wants some sessions to begin: most clients find the server busy which is asked about them.
func someEnter(v visits) error {
	if v.Entered == 0 {
		return fmt.Errorf("no hostile client began a session, and %d were refused", v.Refused)
	}
	return nil
}

// isRefused wants clients to be refused.
func isRefused(v visits) error {
	if v.Refused <= v.Entered {
		return fmt.Errorf("%d hostile clients were refused, and %d began a session", v.Refused, v.Entered)
	}
	return nil
}

// endsRight wants visits to end as the attack wants it, with the right close code, for example.
func endsRight(v visits) error {
	if v.Right <= v.Failed {
		return fmt.Errorf("%d visits of hostile clients ended right, and %d were refused or reset", v.Right, v.Failed)
	}
	return nil
}

// effectTimeout is how much longer a run lasts at most for attacks that have had no effect yet, and pollEffect how often it looks.
const (
	effectTimeout = kit.StartTimeout
	pollEffect    = 10 * time.Millisecond
)

// visitCounter counts the visits of many clients. Its methods may be called from any goroutine.
type visitCounter struct {
	mu     sync.Mutex
	counts visits // guarded by mu
}

func (c *visitCounter) came() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Came++
}

func (c *visitCounter) answered(status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.answered(status)
}

func (c *visitCounter) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.ended(err)
}

func (c *visitCounter) read() visits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// answers counts the responses to the upgrade requests of hostile clients, and what became of them. Its methods may be called from any goroutine.
type answers struct {
	mu     sync.Mutex
	counts map[string]map[string]int // guarded by mu: by scenario and answer
	visits map[string]visits         // guarded by mu: by scenario
}

// count takes in a visit that has ended.
func (a *answers) count(scenario, status string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts, a.visits = make(map[string]map[string]int), make(map[string]visits)
	}
	if a.counts[scenario] == nil {
		a.counts[scenario] = make(map[string]int)
	}
	a.counts[scenario][cmp.Or(strings.TrimPrefix(status, "HTTP/1.1 "), "none")]++
	if status == noConnection {
		return
	}
	v := a.visits[scenario]
	v.Came++
	v.answered(status)
	v.ended(err)
	a.visits[scenario] = v
}

// of returns what became of a scenario's visits.
func (a *answers) of(scenario string) visits {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.visits[scenario]
}

// lines returns a line for each scenario.
func (a *answers) lines() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.counts)) {
		all = append(all, fmt.Sprintf("hostile clients %s: %s", name, kit.Tallied(a.counts[name])))
	}
	return all
}

// withoutEffect returns the hostile clients that did not come to what they must, and the hostile servers that no client was led to, each with why.
func (r *run) withoutEffect() map[string]error {
	all := make(map[string]error)
	for _, s := range r.chosen {
		if s.attack == nil {
			continue
		}
		if err := r.answers.of(s.name).judge(s.effect); err != nil {
			all[s.name] = err
		}
	}
	for _, v := range r.staged {
		if v.hostile != nil && v.hostile.read().attempts == 0 {
			all[v.name] = errors.New("the proxy never dialed the hostile server")
		}
	}
	return all
}

// judgeEffects notes what had no effect.
func (r *run) judgeEffects() {
	without := r.withoutEffect()
	for _, name := range slices.Sorted(maps.Keys(without)) {
		r.journal.Violation(name, "something hostile had no effect", nil, "%v", without[name])
	}
}
