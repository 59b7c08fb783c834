// Package devtools drives a headless Chromium over the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/). It is
// for tests only: any failure ends the test.
package devtools

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// Browser is a headless Chromium. The test's goroutine calls its methods.
type Browser struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
	done chan struct{} // closed when nothing more is read from conn

	mu      sync.Mutex
	last    int                     // number of the last command
	waiting map[int]chan<- response // by the commands' numbers
	logged  []string                // errors and messages of pages
}

// response is a message of the browser: the answer to a command, or an event.
type response struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Start starts the Chromium at that path with more arguments than it needs to run headless. It ends with the test; ctx ends a test
// that hangs.
func Start(t *testing.T, ctx context.Context, chromium string, more ...string) *Browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "wsbouncer-browser")
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{
		"--headless", "--remote-debugging-port=0", "--user-data-dir=" + profile, "--window-size=900,980",
		"--no-first-run", "--disable-gpu", "--disable-extensions", "--disable-component-update", "--disable-background-networking",
		"--disable-sync", "--mute-audio", "--disable-dev-shm-usage",
	}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--no-sandbox") // which cannot be had as root
	}
	arguments = append(arguments, more...)
	command := exec.Command(chromium, append(arguments, "about:blank")...)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(stderr)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if url, ok := strings.CutPrefix(scanner.Text(), "DevTools listening on "); ok {
				address <- url
			}
		}
	}()
	b := &Browser{t: t, ctx: ctx, done: make(chan struct{}), waiting: make(map[int]chan<- response)}
	t.Cleanup(func() {
		if b.conn != nil {
			b.conn.Write(context.Background(), websocket.MessageText, []byte(`{"id":0,"method":"Browser.close"}`))
			<-b.done
		} else {
			command.Process.Kill()
		}
		<-read
		command.Wait()
		if err := os.RemoveAll(profile); err != nil {
			t.Error(err)
		}
	})
	select {
	case url := <-address:
		if b.conn, _, err = websocket.Dial(ctx, url, nil); err != nil {
			t.Fatal(err)
		}
	case <-read:
		t.Fatalf("%s ended before it listened", chromium)
	case <-ctx.Done():
		t.Fatalf("%s does not listen: %v", chromium, ctx.Err())
	}
	b.conn.SetReadLimit(64 << 20) // screenshots
	go b.read()
	return b
}

// read hands out the answers to commands, and collects what pages log.
func (b *Browser) read() {
	defer close(b.done)
	for {
		_, message, err := b.conn.Read(context.Background())
		if err != nil {
			return
		}
		var r response
		if json.Unmarshal(message, &r) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case r.Method == "Runtime.exceptionThrown" || r.Method == "Log.entryAdded" || r.Method == "Runtime.consoleAPICalled":
			b.logged = append(b.logged, string(r.Params))
		case b.waiting[r.ID] != nil:
			b.waiting[r.ID] <- r
			delete(b.waiting, r.ID)
		}
		b.mu.Unlock()
	}
}

// Logs returns what pages have logged so far.
func (b *Browser) Logs() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.logged, "\n")
}

// command sends a command to a page (or to the browser, without a session) and reads its result into into.
func (b *Browser) command(session, method string, parameters map[string]any, into any) {
	b.t.Helper()
	answer := make(chan response, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.waiting[id] = answer
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method, "params": parameters}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.Write(b.ctx, websocket.MessageText, text); err != nil {
		b.t.Fatal(err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.done:
		b.t.Fatalf("%s: the browser has ended", method)
	case <-b.ctx.Done():
		b.t.Fatalf("%s: %v; the page logged: %s", method, b.ctx.Err(), b.Logs())
	}
}

// Tab is one page in the browser, in a test.
type Tab struct {
	*testing.T
	browser *Browser
	session string
}

// Open opens an address in a tab of its own.
func (b *Browser) Open(url string) Tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.command("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.command("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	page := Tab{b.t, b, attached.SessionID}
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		b.command(page.session, domain+".enable", nil, nil)
	}
	b.command(page.session, "Page.navigate", map[string]any{"url": url}, nil)
	page.Evaluate(`new Promise((resolve) => document.readyState === "complete" ? resolve() : addEventListener("load", resolve))`, nil)
	return page
}

// Evaluate runs JavaScript, as if the user had asked for it, waits for its promise, and reads its value into into.
func (p Tab) Evaluate(script string, into any) {
	p.T.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.browser.command(p.session, "Runtime.evaluate", map[string]any{
		"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &r)
	if e := r.ExceptionDetails; e != nil {
		p.T.Fatalf("%s: %s", e.Text, e.Exception.Description)
	}
	if into != nil {
		if err := json.Unmarshal(r.Result.Value, into); err != nil {
			p.T.Fatalf("%.200s: %v", script, err)
		}
	}
}

// Command sends a command of the protocol to the page and reads its result into into, unless that is nil.
func (p Tab) Command(method string, parameters map[string]any, into any) {
	p.T.Helper()
	p.browser.command(p.session, method, parameters, into)
}

// Await waits until an expression becomes true; it is looked at whenever the page changes.
func (p Tab) Await(expression string) {
	p.T.Helper()
	p.Evaluate(fmt.Sprintf(`new Promise((resolve) => {
		const look = () => { if (%s) { observer.disconnect(); resolve(); } };
		const observer = new MutationObserver(look);
		observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
		look();
	})`, expression), nil)
}

// Text returns the text of the first element that a CSS selector finds.
func (p Tab) Text(selector string) string {
	p.T.Helper()
	var text string
	p.Evaluate(fmt.Sprintf(`document.querySelector(%q).textContent`, selector), &text)
	return text
}

// Screenshot keeps a picture of the page, if SCREENSHOTS names a folder.
func (p Tab) Screenshot(name string) {
	p.T.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	var picture struct{ Data string }
	p.Command("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil {
		p.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), data, 0o644); err != nil {
		p.T.Fatal(err)
	}
}
