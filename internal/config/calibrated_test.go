package config

import (
	"strings"
	"testing"
	"time"
)

// What is saved is read as it was; neither a version nor the name of a model breaks the line.
func TestCalibratedText(t *testing.T) {
	c := Calibrated{
		At: time.Date(2026, 11, 27, 23, 30, 0, 0, time.UTC), Profile: "vosk", Streams: 24,
		Under: []string{"lag-p95=1s", "error-rate=0", "model=a b"}, Version: "Python/3.11\nwebsockets/12.0",
	}
	const text = "2026-11-27 vosk streams=24 lag-p95=1s error-rate=0 version=Python/3.11 websockets/12.0"
	if got := c.String(); got != text {
		t.Errorf("%q; want %q", got, text)
	}
	if parsed, err := ParseCalibrated(text); err != nil || parsed.String() != text || parsed.Streams != 24 {
		t.Errorf("%+v, %v", parsed, err)
	}
	for text, says := range map[string]string{
		"2026-11-27 vosk":                           "a number of streams belong in it",
		"2026-11-27 vosk streams=24\n":              "on one line",
		"2026-11-27 vosk streams=24 version=":       "on one line",
		"27.11.2026 vosk streams=24":                "no date",
		"2026-11-27 -vosk streams=24":               "invalid name",
		"2026-11-27 vosk streams=0":                 "no number of streams",
		"2026-11-27 vosk streams=024":               "no number of streams",
		"2026-11-27 vosk reset=holds":               "no number of streams",
		"2026-11-27 vosk streams=24 lag":            "no limit",
		"2026-11-27 vosk streams=24  lag-p95=1s":    "no limit",
		"2026-11-27 vosk streams=24 lag-p95=1s\xff": "on one line",
	} {
		if err := checkCalibrated(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

// Backends with an old calibration, of another profile or version, or with more connections than it found, are named; those without one, apart.
func TestCalibratedWarnings(t *testing.T) {
	const good = "2026-11-22 vosk streams=24 version=A/1"
	day := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		profile, verified, calibrated string
		now                           time.Time
		says                          string // empty for no warning
		missing                       bool
	}{
		{"vosk", "", good, day.AddDate(0, 0, 90), "", false},
		{"vosk", "", good, day.AddDate(0, 0, 91), "the backend gpu-1: its server was calibrated on 2026-11-22, more than 90 days ago", false},
		{"kaldi-gstreamer", "", good, day, "with the profile vosk, but the service has the profile kaldi-gstreamer now", false},
		{"vosk", "2026-11-23 vosk reset=holds version=A/1", good, day, "", false},
		{"vosk", "2026-11-21 vosk reset=holds version=A/2", good, day, "", false},
		{"vosk", "2026-11-23 vosk reset=holds version=A/2", good, day, "as A/1, but was A/2 on 2026-11-23", false},
		{"vosk", "", "2026-11-22 vosk streams=23", day, "it may get 24 connections, but took 23 streams", false},
		{"vosk", "", "", day, "", true},
		{"one-shot", "", "", day, "", false}, // whose clients are not known
	} {
		content := NewContent()
		service, backend := DefaultService(), DefaultBackend()
		service.Profile, service.Verified = c.profile, c.verified
		backend.Service, backend.URL, backend.Connections, backend.Calibrated = "stt", "ws://gpu-1:2700/", 24, c.calibrated
		content.Services["stt"], content.Backends["gpu-1"] = service, backend
		snapshot, err := NewSnapshot("1", &content, nil)
		if err != nil {
			t.Fatal(err)
		}
		warnings, missing := snapshot.CalibratedWarnings(named, c.now)
		if got := strings.Join(warnings, "\n"); !strings.Contains(got, c.says) || (got == "") != (c.says == "") || (len(missing) == 1) != c.missing {
			t.Errorf("%+v: %q, missing %v", c, got, missing)
		}
	}
}
