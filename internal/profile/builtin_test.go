package profile

import "testing"

func TestBuiltIn(t *testing.T) {
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		t.Log(p.Name, p.Reuse, p.Declared, p.Reason)
	}
}
