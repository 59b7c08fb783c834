package route

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// known is what the model knows of an id, the one used last is last.
type known struct {
	owner, id string
	backend   *backend.Backend
	keep      time.Duration
	sessions  int
	until     time.Time
}

// TestAffinityModel compares histories of sessions, ids, ends and time with a plain list.
func TestAffinityModel(t *testing.T) {
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(0, 0)
		most := 1 + dice.IntN(6)
		a := newAffinity(most, func() time.Time { return now })
		servers := []*backend.Backend{new(backend.Backend), new(backend.Backend), new(backend.Backend)}
		owners := map[string]*identity.Identity{"": nil, "t": {Tenant: "t", Key: "k"}, "k": {Method: "keys", Key: "k"}, "s": {Method: "jwt", Subject: "k"}}
		names := []string{"", "t", "k", "s"}
		var model []*known
		type session struct {
			named *Named
			model *known
		}
		var sessions []session
		find := func(owner, id string) int {
			return slices.IndexFunc(model, func(k *known) bool { return k.owner == owner && k.id == id })
		}
		use := func(i int) *known {
			k := model[i]
			model = append(slices.Delete(model, i, i+1), k)
			return k
		}
		for step := range 400 {
			owner, id := names[dice.IntN(len(names))], fmt.Sprint(dice.IntN(4))
			switch dice.IntN(8) {
			case 0, 1, 2: // a server gives an id
				b, keep := servers[dice.IntN(len(servers))], time.Duration(1+dice.IntN(2))*time.Minute
				s := session{named: a.Learn(owners[owner], id, b, keep)}
				i := find(owner, id)
				if i >= 0 && (model[i].backend != b || model[i].keep != keep) {
					model, i = slices.Delete(model, i, i+1), -1
				}
				if i >= 0 {
					s.model = use(i)
					s.model.sessions++
				} else {
					s.model = &known{owner: owner, id: id, backend: b, keep: keep, sessions: 1}
					model = append(model, s.model)
					for len(model) > most || model[0].sessions == 0 && !now.Before(model[0].until) {
						model = model[1:]
					}
				}
				sessions = append(sessions, s)
			case 3, 4, 5: // a client says an id
				s := session{named: a.Find(owners[owner], id)}
				if i := find(owner, id); i >= 0 {
					if k := model[i]; k.sessions == 0 && !now.Before(k.until) {
						model = slices.Delete(model, i, i+1)
					} else {
						s.model = use(i)
						s.model.sessions++
					}
				}
				if (s.named == nil) != (s.model == nil) || s.named != nil && s.named.Backend != s.model.backend {
					t.Fatalf("seed %d, step %d: %s of %q: %+v; want %+v", seed, step, id, owner, s.named, s.model)
				}
				if s.named != nil {
					sessions = append(sessions, s)
				}
			case 6: // a session ends
				if len(sessions) == 0 {
					continue
				}
				i := dice.IntN(len(sessions))
				s := sessions[i]
				sessions = slices.Delete(sessions, i, i+1)
				a.End(s.named)
				s.model.sessions--
				s.model.until = now.Add(s.model.keep)
				if i := slices.Index(model, s.model); i >= 0 {
					use(i)
				}
			case 7:
				now = now.Add(time.Duration(dice.IntN(90)) * time.Second)
			}
			if a.Size() != len(model) {
				t.Fatalf("seed %d, step %d: %d ids; want %d", seed, step, a.Size(), len(model))
			}
		}
	}
}

// However many ids come, they take no more memory than the most that are remembered.
func TestAffinityMemory(t *testing.T) {
	a, b := NewAffinity(), new(backend.Backend)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const many = 3 * maxNamed
	name := func(i int) string { return strings.Repeat("x", 248) + strconv.Itoa(10_000_000+i) }
	for i := range many {
		a.End(a.Learn(nil, name(i), b, time.Hour))
	}
	if a.Size() != maxNamed || a.Find(nil, name(many-1)) == nil || a.Find(nil, name(0)) != nil {
		t.Errorf("%d ids", a.Size())
	}
	if used := heap() - before; used > 300*maxNamed {
		t.Errorf("%d bytes for each id", used/maxNamed)
	}
	runtime.KeepAlive(a)
}
