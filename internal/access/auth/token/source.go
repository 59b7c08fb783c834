package token

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
)

const (
	// readTimeout bounds one reading of a key set.
	readTimeout = 10 * time.Second
	// A key set from a URL is read again when the issuer says so (max-age of Cache-Control), within these limits, or after freshFor.
	leastFresh, freshFor, mostFresh = time.Minute, 5 * time.Minute, 15 * time.Minute
	// fileInterval is how often a file is read.
	fileInterval = 2 * time.Second
	// maxRedirects is how many redirects are followed.
	maxRedirects = 3
)

// source is where a key set comes from.
type source interface {
	// read returns the document, and for how long it holds.
	read(ctx context.Context) (document []byte, fresh time.Duration, err error)
	// String returns what logs call it, without what may be secret.
	String() string
}

// newSource returns the source at an http or https URL or file:/path.
func newSource(location string) source {
	if path, ok := strings.CutPrefix(location, "file:"); ok {
		return fileSource(path)
	}
	return &urlSource{url: location, client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: checkRedirect,
	}}
}

// fileSource is a file, by its path.
type fileSource string

func (s fileSource) String() string { return "file:" + string(s) }

func (s fileSource) read(context.Context) (document []byte, fresh time.Duration, err error) {
	document, err = timedread.Do(string(s), s.readFile)
	return document, fileInterval, err
}

func (s fileSource) readFile() ([]byte, error) {
	info, err := os.Stat(string(s))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // reading it might never return
		return nil, fmt.Errorf("%s is not a regular file", string(s))
	}
	file, err := os.Open(string(s))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readDocument(file)
}

// CheckFile returns why the file of a key set cannot be used; nil if it can.
func CheckFile(path string) error {
	document, _, err := fileSource(path).read(context.Background())
	if err == nil {
		_, err = parseKeySet(document)
	}
	return err
}

// readDocument reads all of a document.
func readDocument(from io.Reader) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err == nil && len(document) > maxDocument {
		err = fmt.Errorf("the key set is larger than %d bytes", maxDocument)
	}
	return document, err
}

// urlSource is a URL.
type urlSource struct {
	url    string
	client *http.Client
}

// String returns the URL without the values of its query.
func (s *urlSource) String() string {
	u, err := url.Parse(s.url)
	if err != nil {
		return "(invalid URL)"
	}
	if u.RawQuery != "" {
		u.RawQuery = "(hidden)"
	}
	u.User = nil
	return u.String()
}

// checkRedirect allows redirects within the same server only: a server that names another one would choose the keys.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		return errors.New("the server redirects to another one, which is not followed: configure the final URL")
	case len(via) > maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return nil
}

func (s *urlSource) read(ctx context.Context) (document []byte, fresh time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, 0, errors.New("invalid URL")
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	request.Header.Set("User-Agent", "wsbouncer")
	response, err := s.client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // its text has the URL's query
			err = failed.Err
		}
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("the server answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	document, err = readDocument(response.Body)
	return document, freshness(response.Header), err
}

// freshness returns for how long an answer holds (RFC 9111, section 5.2.2.1), within limits.
func freshness(header http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(header["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
			return min(max(time.Duration(seconds)*time.Second, leastFresh), mostFresh)
		}
	}
	return freshFor
}
