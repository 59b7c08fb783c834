package verify

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Numbers that differ only in zeros at the end of their fraction are the same; all others, and texts, are compared letter by letter, but
// for times that the profile shifts.
func TestCompareNumbers(t *testing.T) {
	sherpa, err := profile.Named("sherpa-onnx")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{`{"end": 0.50}`, `{"end": 0.5}`, true},
		{`{"end": 7.00}`, `{"end": 7}`, true},
		{`{"end": 0.0}`, `{"end": 0}`, true},
		{`{"end": [1, {"at": 2.10}]}`, `{"end": [1, {"at": 2.1}]}`, true},
		{`{"end": 70}`, `{"end": 7}`, false},
		{`{"end": 7.05}`, `{"end": 7.5}`, false},
		{`{"end": 1.0e10}`, `{"end": 1.0e1}`, false},
		{`{"end": "0.50"}`, `{"end": "0.5"}`, false},
		{`{"start_time": 0.870269}`, `{"start_time": 0.87027}`, true},
		{`{"start_time": 0.870269}`, `{"start_time": 0.872}`, false},
		{`{"end": 0.123456789012345671}`, `{"end": 0.123456789012345672}`, false},
	} {
		outcomeOf := func(text string) *outcome {
			return &outcome{finals: []leaves{leavesOf(speaker.Message{Opcode: frame.Text, Payload: []byte(text)})}}
		}
		if why := compare(outcomeOf(c.got), outcomeOf(c.want), nil, sherpa.Failover()); (why == "") != c.same {
			t.Errorf("%s and %s: %q", c.got, c.want, why)
		}
	}
}
