package dashboard

import (
	"fmt"
	"os"
	"testing"
)

// TestPictures takes the pictures of the documentation, of the proxy whose dashboard DASHBOARD names (CONTRIBUTING.md, "Add a page"). It
// fails if the page does not fit.
func TestPictures(t *testing.T) {
	url := os.Getenv("DASHBOARD")
	if url == "" {
		t.Skip("DASHBOARD names no proxy to take pictures of")
	}
	page := startChromium(t).Open(url)
	page.Command("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
	resize(page, 1280, 1360)
	if token := os.Getenv("WSBOUNCER_ADMIN_TOKEN"); token != "" {
		logIn(page, token)
	}
	page.Await(`document.querySelectorAll("#backend-rows tr").length > 0 && document.querySelectorAll("#charts canvas").length > 0`)
	for _, picture := range []struct {
		scheme        string
		width, height int
	}{{"light", 1280, 1360}, {"dark", 1280, 1360}, {"dark", 360, 900}} {
		prefer(page, picture.scheme)
		resize(page, picture.width, picture.height)
		page.Await(fmt.Sprintf(`innerWidth === %d && document.querySelector("#charts canvas").getBoundingClientRect().right <= innerWidth`, picture.width))
		if wide := value[int](page, `document.documentElement.scrollWidth`); wide > picture.width {
			t.Errorf("at %d px, the page has %d", picture.width, wide)
		}
		page.Screenshot(fmt.Sprintf("dashboard-%s-%d", picture.scheme, picture.width))
	}
}
