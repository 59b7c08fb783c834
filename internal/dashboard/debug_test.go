package dashboard

import (
	"testing"
	"time"
)

func TestDebug(t *testing.T) {
	f := startFake(t)
	browser := startChromium(t)
	page := browser.Open(f.url())
	resize(page, 1440, 1900)
	for range 10 {
		time.Sleep(time.Second)
		t.Log(value[string](page, `document.querySelectorAll("#session-rows tr").length + " " + document.querySelectorAll("#end-rows tr").length+" "+document.hidden`))
	}
	time.Sleep(1 * time.Second)
	page.Screenshot("debug")
	t.Log(value[string](page, `document.body.innerText.slice(0,10)`))
	t.Log(browser.Logs())
}
