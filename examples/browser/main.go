// Command browser serves a page that streams the microphone through the proxy and shows transcripts as they come. The page
// (in page/) is plain HTML, CSS and JavaScript, and works from the disk as well.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/clients/javascript"
)

//go:embed page
var page embed.FS

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to serve the page on; browsers give the microphone only to localhost or https")
	proxy := flag.String("proxy", "ws://127.0.0.1:8080/", "URL of the proxy, as the browser reaches it")
	flag.Parse()
	u, err := check(*proxy, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Stdout, *listen, u); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// check returns the proxy's URL, or what is wrong with the command line.
func check(proxy string, rest []string) (*url.URL, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("unknown argument %q", rest[0])
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
		return nil, fmt.Errorf("-proxy: invalid address %q: use ws://host:port/path or wss://host/path", proxy)
	}
	return u, nil
}

// serve serves the page until the context ends, and says where.
func serve(ctx context.Context, out io.Writer, listen string, proxy *url.URL) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "open http://%s/ (Ctrl-C ends it)\n", listener.Addr())
	to := newPlug(proxy)
	defer to.set(false)
	server := &http.Server{Handler: handler(to), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // which makes Serve return
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves the page, tells it in its address where the plug is, through which it reaches the proxy, and lets it pull the plug.
func handler(to *plug) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /resuming-websocket.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(javascript.ResumingWebSocket))
	})
	mux.Handle("GET /proxy", to)
	mux.HandleFunc("POST /plug", func(_ http.ResponseWriter, r *http.Request) { to.set(r.URL.Query().Get("in") == "true") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The page runs its own scripts and the worklet that it makes of them, and talks to no server but the plug and the given proxy.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' blob:; style-src 'self'; img-src data:; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path == "/" && !r.URL.Query().Has("proxy") {
			home := "/?" + url.Values{"proxy": {"ws://" + r.Host + "/proxy"}}.Encode()
			http.Redirect(w, r, home, http.StatusFound)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
