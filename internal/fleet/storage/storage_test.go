package storage

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// TestGrants encodes and decodes grants, of which many fields are zero. What is kept is JSON, with what the databases' triggers read.
func TestGrants(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	number := func() int { return max(0, random.IntN(8)-4) * random.IntN(1000) }
	for range 1000 {
		grants := make([]fleet.Grant, random.IntN(4))
		for i := range grants {
			grants[i] = fleet.Grant{Proxy: fleet.ID(strings.Repeat("a", i+1)), Places: number(), Claim: fleet.Claim{
				Cap: number() * (1 - 2*random.IntN(2)), Holds: number(), Needs: number(), Wants: number(), Waiting: number(), Waited: number(), Floor: number(),
				Share: float64(number()) / 8, Open: number(),
			}}
		}
		text := EncodeGrants(grants)
		got, err := DecodeGrants("s", text)
		if err != nil || !slices.Equal(got, grants) {
			t.Fatalf("%+v became %s and %+v, %v", grants, text, got, err)
		}
		var rows [][]any
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for i, row := range rows {
			if len(row) < minGrant || row[0] != string(grants[i].Proxy) || row[1] != float64(grants[i].Places) || row[3] != float64(grants[i].Claim.Holds) {
				t.Fatalf("%s is not %+v", text, grants)
			}
		}
	}
}

func TestDamagedGrants(t *testing.T) {
	for _, text := range []string{
		``, `[`, `]`, `{}`, `[[]]`, `[["a"]]`, `[["a",1,2]]`, `[["a",1,2,x]]`, `[["a",1,2,3]`, `[["a",1,2,3]]]`, `[[a,1,2,3]]`, `[["a",1,2,3,4,5,6,7,8,"x"]]`,
	} {
		if grants, err := DecodeGrants("gpu", text); err == nil || !strings.Contains(err.Error(), "gpu") {
			t.Errorf("%s: %+v, %v", text, grants, err)
		}
	}
	// A newer program may keep more.
	grants, err := DecodeGrants("gpu", `[["a",1,2,3,4,5,6,7,8,0.5,9,10,10]]`)
	if err != nil || len(grants) != 1 || grants[0].Claim.Floor != 8 || grants[0].Claim.Open != 9 || grants[0].Claim.Share != 0.5 {
		t.Errorf("%+v, %v", grants, err)
	}
}

func TestHistory(t *testing.T) {
	l := NewLedger()
	l.Past = []fleet.PastEpoch{{Epoch: "one", Version: 7}, {Epoch: `tw"o`, Version: -1}}
	l.Departed = []fleet.Departed{{ID: "a", Sequence: 1 << 60}, {ID: "b", Sequence: 2, Past: true}}
	past, departed := EncodeHistory(l)
	got := NewLedger()
	if err := DecodeHistory(got, past, departed); err != nil || !slices.Equal(got.Past, l.Past) || !slices.Equal(got.Departed, l.Departed) {
		t.Errorf("%s, %s became %+v, %v", past, departed, got, err)
	}
	for _, damaged := range [][2]string{{"[[1]]", "[]"}, {"[]", `[["a"]]`}, {"[]", `[["a", 1, 1]]`}} {
		if err := DecodeHistory(got, damaged[0], damaged[1]); err == nil {
			t.Errorf("a damaged history was taken: %s", damaged)
		}
	}
}

func TestMember(t *testing.T) {
	m := fleet.Member{
		ID: "a", Name: "n", Version: "v", Schema: 10, Address: "http://a", Host: "h", Process: "p", Instance: "i", Started: time.Unix(1000, 5).UTC(),
		State: fleet.Draining, Config: "7", Epoch: "e",
	}
	got, err := DecodeMember("a", "e", EncodeMember(&m))
	if err != nil || *got != m {
		t.Errorf("%+v became %+v, %v", m, got, err)
	}
	if _, err := DecodeMember("a", "e", "{"); err == nil {
		t.Error("a damaged member was taken")
	}
	// What is not a proxy has written it.
	m.Name, m.Address, m.Version = "\x1b[31m\nx", "http://a/\n"+strings.Repeat("x", 10_000), "\u202e"
	got, err = DecodeMember("a", "e", EncodeMember(&m))
	if err != nil || got.Name != "\ufffd[31m\ufffdx" || len(got.Address) != mostText || strings.Contains(got.Address, "\n") || got.Version != "\ufffd" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWoken: proxies that can give up what another needs are woken, and no others.
func TestWoken(t *testing.T) {
	grant := func(id fleet.ID, places, needs, waiting int) fleet.Grant {
		return fleet.Grant{Proxy: id, Places: places, Claim: fleet.Claim{Cap: 10, Holds: places, Needs: needs, Wants: needs, Waiting: waiting}}
	}
	for name, c := range map[string]struct {
		grants []fleet.Grant
		want   []fleet.ID
	}{
		"none is short":        {[]fleet.Grant{grant("a", 8, 3, 0), grant("b", 2, 2, 0)}, nil},
		"b is short":           {[]fleet.Grant{grant("a", 8, 3, 0), grant("b", 2, 3, 1)}, []fleet.ID{"a"}},
		"a uses all it has":    {[]fleet.Grant{grant("a", 8, 8, 0), grant("b", 2, 3, 1)}, nil},
		"there are free ones":  {[]fleet.Grant{grant("a", 6, 6, 0), grant("b", 2, 4, 2)}, []fleet.ID{"b"}},
		"c made it, and knows": {[]fleet.Grant{grant("a", 3, 3, 0), grant("c", 2, 4, 2)}, nil},
	} {
		before, after := NewLedger(), NewLedger()
		before.Accounts["s"] = &fleet.Account{Server: "s", Version: 1}
		after.Accounts["s"] = &fleet.Account{Server: "s", Version: 2, Grants: c.grants}
		if got := compare(before, after).Woken("c"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
		after.Accounts["s"].Version = 1
		if got := compare(before, after).Woken("c"); len(got) > 0 {
			t.Errorf("%s, but no proxy must know: %v", name, got)
		}
	}
}
