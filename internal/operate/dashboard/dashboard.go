// Package dashboard serves the dashboard: one page that shows a proxy in a browser and acts on it. The files are embedded, so the
// page needs no network but the way to the proxy, and nothing is built when wsbouncer is installed. The page gets all its data from
// the admin API; this package knows nothing about the proxy.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static
var files embed.FS

// policy is the Content-Security-Policy of everything that the handler sends: scripts, styles, images and connections only from and
// to the proxy itself, nothing inline, no frames, and no HTML from texts (trusted types). So a name or a reason that a hostile client
// chose stays text, even if the page had a bug.
const policy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; " +
	"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are the types of the files by their ending; the machine's own list of types is not asked, since it may be wrong.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8", // licences
}

// Handler serves the page at / and its files below /static/. It may be called from any goroutine.
func Handler() http.Handler {
	mux := http.NewServeMux()
	err := fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := contentTypes[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s: unknown ending", name)
		}
		pattern := "GET /" + name
		if name == "static/index.html" {
			pattern = "GET /{$}"
		}
		mux.Handle(pattern, file(content, kind))
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("the embedded files cannot be read: %v", err)) // they are part of the program
	}
	return mux
}

// file serves one file. A browser keeps it, and asks each time whether it has changed: after an update of the proxy, no page runs
// with some old files and some new ones.
func file(content []byte, contentType string) http.Handler {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-cache")
		header.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Type", contentType)
		_, _ = w.Write(content) // a browser that has gone needs no answer
	})
}
