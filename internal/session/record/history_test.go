package record

import (
	"fmt"
	"slices"
	"testing"
)

// The proxy remembers the sessions that ended last, and who follows them misses none.
func TestHistory(t *testing.T) {
	var h History
	add := func(n int) {
		for range n {
			h.Add(&Record{ID: ID{Number: h.count + 1}})
		}
	}
	numbers := func(records []Record) (all []uint64) {
		for _, r := range records {
			all = append(all, r.ID.Number)
		}
		return all
	}
	add(3)
	records, count := h.Since(1)
	if got := numbers(records); !slices.Equal(got, []uint64{2, 3}) || count != 3 {
		t.Errorf("%v, %d", got, count)
	}
	add(remembered)
	records, count = h.Since(count)
	if got := numbers(records); len(got) != remembered || got[0] != 4 || got[remembered-1] != remembered+3 {
		t.Errorf("%d records from %d, count %d", len(got), got[0], count)
	}
	if records, _ := h.Since(0); len(records) != remembered {
		t.Errorf("%d records", len(records))
	}
	if records, again := h.Since(count + 5); len(records) != remembered || again != count {
		t.Errorf("from the future: %d records, count %d", len(records), again)
	}
	if _, ok := h.Find(ID{Number: 3}); ok {
		t.Error("a record that was overwritten is found")
	}
	if r, ok := h.Find(ID{Number: 4}); !ok || r.ID.Number != 4 {
		t.Error(fmt.Sprint("the oldest is not found: ", r.ID))
	}
}
