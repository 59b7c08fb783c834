package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout ends a test that hangs. A test that passes never waits for it.
const testTimeout = 2 * time.Minute

// startChromium starts the browser that `make test-browser` found, with recorded speech for its microphone.
func startChromium(t *testing.T) *devtools.Browser {
	t.Helper()
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		t.Skip("`make test-browser` runs this: it takes Chromium")
	}
	file := filepath.Join(t.TempDir(), "speech.wav")
	if err := os.WriteFile(file, speech.WAV, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return devtools.Start(t, ctx, chromium, "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
		"--use-file-for-fake-audio-capture="+file)
}

// startProxy starts a simulated Vosk server and the proxy in front of it, and returns the proxy's URL. Sessions wait for lost clients.
func startProxy(t *testing.T) (*sim.Server, string) {
	t.Helper()
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	settings := app.DefaultSettings()
	settings.Listen = []string{"127.0.0.1:0"}
	settings.Admin = "127.0.0.1:0"
	settings.Backends = []string{server.URL()}
	settings.Profile = "vosk"
	settings.Service.Reconnect = time.Minute
	settings.Connections, settings.Warm = 2, 2
	settings.DrainTimeout = 0
	proxy, err := app.Start(t.Context(), settings, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Shutdown() })
	return server, "ws://" + proxy.Addresses()[0].String() + "/"
}

// startPage serves the page and returns its URL.
func startPage(t *testing.T, proxy string) string {
	t.Helper()
	to := newPlug(parse(t, proxy))
	server := httptest.NewServer(handler(to))
	t.Cleanup(func() {
		to.set(false)
		server.Close()
	})
	return server.URL
}

const (
	click     = `document.querySelector("#toggle").click()`
	clickPlug = `document.querySelector("#plug").click()`
)

// What a simulated server says: how loud a word is, in decibels below full scale, and at the end of an utterance how much
// audio it has heard.
var (
	loudness = regexp.MustCompile(`speech-\d+ms-(-?\d+)dB`)
	heard    = regexp.MustCompile(`heard-(\d+)ms`)
)

// TestTranscript speaks into the microphone and expects transcripts, from a server and from the disk.
func TestTranscript(t *testing.T) {
	_, proxy := startProxy(t)
	folder, err := filepath.Abs("page")
	if err != nil {
		t.Fatal(err)
	}
	fromDisk := url.URL{Scheme: "file", Path: filepath.ToSlash(folder) + "/index.html", RawQuery: url.Values{"proxy": {proxy}}.Encode()}
	for name, address := range map[string]string{"served": startPage(t, proxy), "disk": fromDisk.String()} {
		t.Run(name, func(t *testing.T) {
			browser := startChromium(t)
			page := browser.Open(address)
			page.Screenshot(name + "-1-idle")
			page.Evaluate(click, nil)
			page.Await(`document.body.dataset.state === "listening"`)
			began := time.Now()
			page.Await(`document.querySelector(".partial").textContent.includes("speech-")`)
			page.Await(`Number(getComputedStyle(document.querySelector("#meter")).getPropertyValue("--level")) > 0.3`)
			page.Await(`document.querySelector(".final")`)
			page.Await(`document.querySelector(".partial").textContent.includes("speech-")`)
			page.Screenshot(name + "-2-listening")
			page.Evaluate(click, nil)
			page.Await(`document.body.dataset.state === "idle"`)
			took := time.Since(began)
			page.Screenshot(name + "-3-ended")

			first := page.Text(".final")
			if !strings.HasPrefix(first, "utterance-1 speech-") {
				t.Errorf("the first transcript is %q", first)
			}
			// Speech is quieter than the noise that its samples make in the wrong byte order: 5 dB below full scale.
			for _, match := range loudness.FindAllStringSubmatch(first, -1) {
				if below, err := strconv.Atoi(match[1]); err != nil || below < 9 {
					t.Errorf("%d dB below full scale is no speech: %q", below, first)
				}
			}
			if code, reason := page.Text(".code"), page.Text(".reason"); code != "1000" || reason != "the session is over" {
				t.Errorf("it ended with %s %q", code, reason)
			}
			var finals string
			page.Evaluate(`[...document.querySelectorAll(".final")].map((p) => p.textContent).join(" / ")`, &finals)
			matches := heard.FindAllStringSubmatch(finals, -1)
			if len(matches) == 0 {
				t.Fatalf("no end of an utterance in %q", finals)
			}
			// Audio comes in real time, at the right rate: the last utterance ended with the audio that was recorded.
			last, err := strconv.Atoi(matches[len(matches)-1][1])
			recorded, err2 := strconv.ParseFloat(strings.TrimSuffix(page.Text("#audio"), " s"), 64)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if float64(last) > 1000*recorded+100 {
				t.Errorf("the server has heard %d ms of the %.1f s that were recorded", last, recorded)
			}
			if recorded > took.Seconds()+1 || recorded < took.Seconds()/2-1 {
				t.Errorf("%.1f s were recorded in %v", recorded, took)
			}
			if logs := browser.Logs(); logs != "" {
				t.Errorf("the page logged %s", logs)
			}
		})
	}
}

// TestPlug pulls the plug while somebody speaks. What was said meanwhile is in the transcript, of the same session.
func TestPlug(t *testing.T) {
	browser := startChromium(t)
	_, proxy := startProxy(t)
	page := browser.Open(startPage(t, proxy))
	page.Await(`!document.querySelector("#plug").hidden`)
	page.Evaluate(click, nil)
	page.Await(`document.querySelector(".partial").textContent.includes("speech-")`)
	const audio = `parseFloat(document.querySelector("#audio").textContent)`
	for range 2 {
		page.Evaluate(clickPlug, nil)
		page.Await(`!document.querySelector("#lost").hidden`)
		page.Evaluate(`window.before = `+audio, nil)
		page.Await(audio + ` > before + 1.5`)
		page.Screenshot("plug-1-pulled")
		page.Evaluate(clickPlug, nil)
		page.Await(`document.querySelector("#lost").hidden`)
		page.Evaluate(`window.before = `+audio, nil)
		page.Await(`[...document.body.textContent.matchAll(/heard-(\d+)ms/g)].some((match) => match[1] > 1000 * before)`)
	}
	page.Screenshot("plug-2-in-again")
	page.Evaluate(click, nil)
	page.Await(`document.body.dataset.state === "idle"`)
	if code := page.Text(".code"); code != "1000" {
		t.Errorf("it ended with %s %q", code, page.Text(".reason"))
	}
	var finals []string
	page.Evaluate(`[...document.querySelectorAll(".final")].map((p) => p.textContent)`, &finals)
	for i, final := range finals {
		if !strings.HasPrefix(final, fmt.Sprintf("utterance-%d ", i+1)) {
			t.Errorf("final %d is %q", i+1, final)
		}
	}
}

// TestServerGoesAway shows the close code of a server that ends the session, and lets the user begin anew.
func TestServerGoesAway(t *testing.T) {
	browser := startChromium(t)
	server, proxy := startProxy(t)
	page := browser.Open(startPage(t, proxy))
	page.Evaluate(click, nil)
	page.Await(`document.querySelector(".partial").textContent.includes("speech-")`)
	server.CloseSessions(frame.GoingAway, "maintenance")
	page.Await(`document.body.dataset.state === "idle"`)
	if code, reason := page.Text(".code"), page.Text(".reason"); code != "1001" || reason != "maintenance" {
		t.Errorf("it ended with %s %q", code, reason)
	}
	if unfinished := page.Text(".unfinished"); !strings.Contains(unfinished, "speech-") {
		t.Errorf("of what was not finished is left %q", unfinished)
	}
	page.Evaluate(click, nil)
	page.Await(`document.querySelector(".partial").textContent.includes("speech-")`)
	page.Evaluate(click, nil)
	page.Await(`document.body.dataset.state === "idle"`)
	if code := page.Text(".code"); code != "1000" {
		t.Errorf("the second session ended with %s", code)
	}
	page.Screenshot("two-sessions")
}

// TestNoProxy shows what is wrong when there is no proxy, or no address of one.
func TestNoProxy(t *testing.T) {
	browser := startChromium(t)
	server, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := server.URL()
	server.Close()
	page := browser.Open(startPage(t, closed))
	page.Evaluate(click, nil)
	page.Await(`document.querySelector(".code").textContent === "1006"`)
	page.Await(`document.body.dataset.state === "idle"`)
	page.Evaluate(`document.querySelector("#proxy").value = "nonsense:"`, nil)
	page.Evaluate(click, nil)
	page.Await(`document.querySelector(".code").textContent === "error"`)
	page.Await(`document.body.dataset.state === "idle"`)
	page.Screenshot("errors")
}

// TestResampler lets through what has room in 16 kHz, and takes out what has not, however the audio is cut in pieces.
func TestResampler(t *testing.T) {
	browser := startChromium(t)
	page := browser.Open(startPage(t, "ws://127.0.0.1:1/"))
	for _, test := range []struct {
		rate, frequency int
		kept            bool
	}{
		{48000, 440, true},
		{48000, 6000, true},
		{48000, 9000, false},
		{48000, 20000, false},
		{44100, 440, true},
		{44100, 6000, true},
		{44100, 9000, false},
		{16000, 3000, true},
		{8000, 3000, true},
	} {
		var got struct {
			Length int
			Off    float64 // most that the result, its edges aside, differs from what it should be
		}
		page.Evaluate(fmt.Sprintf(`(() => {
			const [rate, frequency, kept] = [%d, %d, %t];
			const resampler = new Resampler(rate, 16000);
			const output = [];
			for (let at = 0; at < rate; ) {
				const length = Math.min(rate - at, 1 + (at * 7) %% 300);
				output.push(...resampler.process(Float32Array.from({length}, (_, i) => Math.sin(2 * Math.PI * frequency * (at + i) / rate))));
				at += length;
			}
			output.push(...resampler.flush());
			const off = output.map((v, i) => Math.abs(v - kept * Math.sin(2 * Math.PI * frequency * i / 16000)));
			return {length: output.length, off: Math.max(...off.slice(500, -500))};
		})()`, test.rate, test.frequency, test.kept), &got)
		if got.Length != 16000 || got.Off > 0.005 {
			t.Errorf("%+v: a second has %d samples, which are off by %.4f", test, got.Length, got.Off)
		}
	}
}
