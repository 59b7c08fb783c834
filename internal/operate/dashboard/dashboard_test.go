package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxSize is the budget for all files, in bytes, before any compression.
const maxSize = 200_000

// all returns the embedded files by the path at which they are served.
func all(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if name == "static/index.html" {
			name = ""
		}
		found["/"+name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func serve(method, target string, header http.Header) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, target, nil)
	if header != nil {
		request.Header = header
	}
	Handler().ServeHTTP(recorder, request)
	return recorder
}

func TestHandlerServesFiles(t *testing.T) {
	for target, content := range all(t) {
		r := serve(http.MethodGet, target, nil)
		if r.Code != http.StatusOK || r.Body.String() != content {
			t.Errorf("%s: got %d and %d bytes", target, r.Code, r.Body.Len())
		}
		want := contentTypes[path.Ext(target)]
		if target == "/" {
			want = "text/html; charset=utf-8"
		}
		if got := r.Header().Get("Content-Type"); got != want {
			t.Errorf("%s: the content type is %q; want %q", target, got, want)
		}
		policy := r.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'self'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q does not contain %q", target, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", target, policy)
		}
		if r.Header().Get("X-Content-Type-Options") != "nosniff" || r.Header().Get("X-Frame-Options") != "DENY" || r.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: got the header %v", target, r.Header())
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/index.html", http.StatusNotFound},
		{http.MethodGet, "/static/", http.StatusNotFound},
		{http.MethodGet, "/static/index.html", http.StatusNotFound},
		{http.MethodGet, "/static/dashboard.go", http.StatusNotFound},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/static/app.js", http.StatusMethodNotAllowed},
		{http.MethodHead, "/", http.StatusOK},
	} {
		if r := serve(c.method, c.target, nil); r.Code != c.status {
			t.Errorf("%s %s: got %d; want %d", c.method, c.target, r.Code, c.status)
		}
	}
}

func TestHandlerDoesNotSendTwice(t *testing.T) {
	tag := serve(http.MethodGet, "/static/app.js", nil).Header().Get("ETag")
	if again := serve(http.MethodGet, "/static/app.js", http.Header{"If-None-Match": {tag}}); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("with the tag %s: got %d and %d bytes", tag, again.Code, again.Body.Len())
	}
	if other := serve(http.MethodGet, "/static/style.css", http.Header{"If-None-Match": {tag}}); other.Code != http.StatusOK {
		t.Errorf("with another file's tag: got %d", other.Code)
	}
}

func TestFilesAreSmall(t *testing.T) {
	size := 0
	for _, content := range all(t) {
		size += len(content)
	}
	if size > maxSize {
		t.Errorf("the files have %d bytes; allowed are %d", size, maxSize)
	}
	t.Logf("%d bytes", size)
}

var (
	otherSite = regexp.MustCompile(`(?i)(https?:)?//[a-z0-9][a-z0-9.-]*\.[a-z]{2,}`)
	inline    = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	asHTML    = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function`)
	reference = regexp.MustCompile(`(?:src|href)="([^"#]+)"|from "\./([^"]+)"`)
)

// No file refers to another site, but for the addresses of licences and of SVG's namespace, which no browser asks for. No script makes
// HTML of texts, and what the page and the modules refer to exists.
func TestFilesStayHere(t *testing.T) {
	present := all(t)
	for name, content := range present {
		vendored := strings.HasPrefix(name, "/static/vendor/")
		for _, url := range otherSite.FindAllString(content, -1) {
			if url != "http://www.w3.org" && (!vendored || url != "https://github.com" && url != "https://registry.npmjs.org") {
				t.Errorf("%s refers to %s", name, url)
			}
		}
		if made := asHTML.FindString(content); made != "" {
			t.Errorf("%s uses %s", name, made)
		}
		if name == "/" {
			if found := inline.FindString(content); found != "" {
				t.Errorf("%s has something inline: %s", name, found)
			}
		}
		if vendored {
			continue
		}
		for _, match := range reference.FindAllStringSubmatch(content, -1) {
			target := "/" + match[1]
			if match[2] != "" {
				target = "/static/" + match[2]
			}
			if _, ok := present[target]; !ok {
				t.Errorf("%s refers to %s, which does not exist", name, target)
			}
		}
	}
	for _, name := range []string{"LICENSE.txt", "SOURCE.txt"} {
		if present["/static/vendor/uplot/"+name] == "" {
			t.Errorf("uPlot has no %s", name)
		}
	}
}
