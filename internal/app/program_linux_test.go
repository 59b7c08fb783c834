package app

import (
	"runtime"
	"testing"
)

// What was mapped of the program is given back, and comes back where it is needed.
func TestReleaseProgram(t *testing.T) {
	if released := releaseProgram(); released < 1<<20 {
		t.Errorf("%d bytes were given back", released)
	}
	s := validSettings()
	if err := s.Check(); err != nil { // code and constants are what they were
		t.Error(err)
	}
	runtime.GC()
	if again := releaseProgram(); again == 0 {
		t.Errorf("%d bytes had come back", again)
	}
}
