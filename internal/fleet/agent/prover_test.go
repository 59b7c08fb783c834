package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// unreachable knows one proxy that is dead; all others answer nothing, as behind a firewall that drops.
type unreachable struct{ dead fleet.ID }

func (u unreachable) Dead(ctx context.Context, m fleet.Member, suspected bool) (string, bool) {
	if suspected && m.ID != u.dead {
		<-ctx.Done()
	}
	return "a test says so", m.ID == u.dead
}

func (unreachable) Meet(ctx context.Context, _ fleet.Member) { <-ctx.Done() }
func (unreachable) Alone() bool                              { return false }
func (unreachable) Tidy([]fleet.Member)                      {}
func (unreachable) Hold(fleet.ID) (func(), error)            { return nil, errors.New("no state directory") }

// TestUnreachableProxies proves a proxy's end soon although many others do not answer, living and suspected ones.
func TestUnreachableProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead fleet.ID = "proxy-99"
		p := newProver(unreachable{dead})
		ctx, cancel := context.WithCancel(t.Context())
		go p.run(ctx)
		j := job{self: "proxy-0", suspects: map[fleet.ID]bool{dead: true}}
		for i := range 100 {
			id := fleet.ID(fmt.Sprint("proxy-", i))
			j.members = append(j.members, fleet.Member{ID: id})
			if i%4 == 1 {
				j.suspects[id] = true
			}
		}
		began := time.Now()
		p.look(j)
		d := <-p.deaths
		if took := time.Since(began); d.member.ID != dead || took > time.Second {
			t.Errorf("%s was proven dead after %v", d.member.ID, took)
		}
		cancel()
		synctest.Wait()
	})
}
