//go:build linux

package rivals

import "testing"

// TestModulesOfTheirOwn runs the tests of the rival that is a Go module of its own, which the tests of this module do not reach.
func TestModulesOfTheirOwn(t *testing.T) {
	for _, arguments := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
		if text, err := Output(t.Context(), "gorilla", "go", arguments...); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
