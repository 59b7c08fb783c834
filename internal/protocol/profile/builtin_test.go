package profile

import (
	"testing"
)

// How each built-in profile reuses connections. A change here is a decision: docs/reference/profiles.md says why.
func TestBuiltIn(t *testing.T) {
	type ways struct{ declared, inForce Reuse }
	want := map[string]ways{
		"one-shot":            {OneShot, OneShot},
		"echo":                {Lockstep, Lockstep},
		"vosk":                {Lockstep, Lockstep},
		"funasr":              {Fenced, OneShot}, // in doubt
		"funasr-realtime":     {Fenced, Fenced},
		"sherpa-onnx":         {Quiet, OneShot}, // proves nothing
		"sherpa-onnx-python":  {OneShot, OneShot},
		"dashscope":           {Tagged, Tagged},
		"vllm-realtime":       {Fenced, OneShot}, // in doubt
		"watson":              {Fenced, OneShot}, // in doubt
		"kyutai":              {OneShot, OneShot},
		"whisperlive":         {OneShot, OneShot},
		"whisperlivekit":      {OneShot, OneShot},
		"realtimestt":         {OneShot, OneShot},
		"deepgram":            {OneShot, OneShot},
		"assemblyai":          {OneShot, OneShot},
		"speechmatics":        {OneShot, OneShot},
		"soniox":              {OneShot, OneShot},
		"gladia":              {OneShot, OneShot},
		"openai-realtime":     {OneShot, OneShot},
		"sglang-realtime":     {Fenced, OneShot}, // in doubt
		"sglang-omni":         {OneShot, OneShot},
		"vllm-omni":           {OneShot, OneShot},
		"nvidia-realtime":     {OneShot, OneShot},
		"openai-translations": {OneShot, OneShot},
		"kaldi-gstreamer":     {OneShot, OneShot},
		"kyutai-tts":          {OneShot, OneShot},
		"cartesia":            {Tagged, Tagged},
		"elevenlabs-tts":      {Tagged, Tagged},
		"azure-speech":        {OneShot, OneShot},
	}
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := (ways{p.Declared, p.Reuse}); got != want[name] {
			t.Errorf("%s: %v; want %v", name, got, want[name])
		}
		if p.Summary == "" || len(p.Summary) > 120 {
			t.Errorf("%s: the summary has %d bytes", name, len(p.Summary))
		}
		if p.Source() == "" {
			t.Errorf("%s: no source", name)
		}
		if (p.Reuse == OneShot) != (p.Reason != "") {
			t.Errorf("%s: %v, reason %q", name, p.Reuse, p.Reason)
		}
	}
	if len(want) != len(Names()) {
		t.Errorf("%d profiles; want %d", len(Names()), len(want))
	}
}

// What is accepted is in force.
func TestAccepted(t *testing.T) {
	for _, c := range []struct {
		yaml  string
		reuse Reuse
	}{
		{"{from: funasr, unsafe: doubt}", Fenced},
		{"{from: vllm-realtime, unsafe: doubt}", Fenced},
		{"{from: sherpa-onnx, unsafe: quiet}", Quiet},
		{"{from: sherpa-onnx, doubt: some, unsafe: quiet}", OneShot},
		{"{from: sherpa-onnx, doubt: some, unsafe: [quiet, doubt]}", Quiet},
		{"{from: funasr, doubt: none}", Fenced},
		{"{from: vosk, reuse: one-shot}", OneShot},
	} {
		if p := mustParse(t, "profiles: {p: "+c.yaml+"}"); p.Reuse != c.reuse {
			t.Errorf("%s: %v, %s", c.yaml, p.Reuse, p.Reason)
		}
	}
}
