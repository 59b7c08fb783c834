// Command gorilla is the proxy that one writes in Go with gorilla/websocket: whole messages are read and written, there
// is a goroutine for each direction, and backend connections come from a pool on a channel that a worker for each
// server keeps filled. It is here to be compared with wsbouncer, and is written as well as that design allows.
//
// Buffers are 4 KiB for reading and for writing, as in gorilla's own examples; those for writing come from a pool
// that all connections share, as its documentation advises for many connections with little traffic. Messages are not
// logged or counted.
//
//	gorilla -listen 127.0.0.1:8080 -size 100 ws://127.0.0.1:9001/ ws://127.0.0.1:9002/
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const bufferSize = 4 << 10

// writeBuffers are shared by all connections.
var writeBuffers = new(sync.Pool)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:8080", "address for clients")
	size := flag.Int("size", 100, "connections to each backend")
	ca := flag.String("ca", "", "file with certificates of authorities that wss:// backends may be signed by")
	flag.Parse()
	dialer := &websocket.Dialer{
		HandshakeTimeout: 5 * time.Second,
		ReadBufferSize:   bufferSize, WriteBufferSize: bufferSize, WriteBufferPool: writeBuffers,
	}
	if *ca != "" {
		roots, err := readCertificates(*ca)
		if err != nil {
			log.Fatal(err)
		}
		dialer.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	p := &proxy{}
	for _, url := range flag.Args() {
		if !strings.HasPrefix(url, "ws://") && !strings.HasPrefix(url, "wss://") {
			log.Fatalf("%q is not the URL of a backend: use ws:// or wss://", url)
		}
		p.pools = append(p.pools, newPool(dialer, url, *size))
	}
	if len(p.pools) == 0 {
		log.Fatal("no backend is given")
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", p.ready)
	mux.HandleFunc("/", p.serve)
	log.Fatal(http.Serve(listener, mux))
}

func readCertificates(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return roots, nil
}
