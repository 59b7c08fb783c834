package profile

import "testing"

func TestUsualBytes(t *testing.T) {
	for name, want := range map[string]int{
		"vosk": 16000, "funasr": 32000, "sherpa-onnx": 64000, "one-shot": 0, "kyutai": 24000 * 5, "vllm-realtime": (32000 + 2) / 3 * 4,
	} {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Failover().UsualBytes(); got != want {
			t.Errorf("%s: %d bytes a second; want %d", name, got, want)
		}
	}
}
