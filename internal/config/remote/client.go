// Package remote reads and changes the configuration of a running proxy over its admin API: [Handler] serves a store, and [Client]
// is a store. So commands change the configuration in the same way, whether they talk to a proxy or to its database.
//
// Both sides send JSON with the texts of the fields. As in a database, fields that nobody has set are left out. This package does
// not use the format of any other store, and imports none of them.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// ClientOptions are the settings of a client.
type ClientOptions struct {
	// Token is sent with every request, if there is one.
	Token string
	// Options are the settings that all stores have. The proxy has checked the profiles that it sends.
	config.Options
}

// Times on the client's side.
const (
	requestTimeout = 30 * time.Second // how long to wait for an answer
	defaultWait    = 20 * time.Second // how long one request waits for a change
	retry          = 300 * time.Millisecond
)

// Client is the configuration of a running proxy. Its methods may be called from any goroutine.
type Client struct {
	address   string              // static
	target    target              // static
	token     string              // static
	check     config.ProfileCheck // static
	transport *http.Transport     // static
	http      *http.Client        // static
	poller    *config.Poller      // static
	wait      time.Duration       // static: how long one request waits for a change
	known     string              // owned by the poller's goroutine: the latest version
	closed    atomic.Bool
}

var _ config.Store = (*Client)(nil)

// Dial returns a client for the admin API at an address: host:port, http://host:port or unix:/path/of/socket. It does not
// connect yet.
func Dial(address string, o ClientOptions) (*Client, error) {
	t, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: address, target: t, token: o.Token, check: o.Profiles, transport: t.transport(), wait: defaultWait}
	c.http = &http.Client{
		Transport: c.transport,
		// The API never redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.Poll > 0 {
		c.wait = min(o.Poll, maxWait)
	}
	c.poller = config.NewPoller(retry, c.poll)
	return c, nil
}

// Address returns the address that Dial was called with.
func (c *Client) Address() string { return c.address }

// Load implements [config.Store].
func (c *Client) Load(ctx context.Context) (*config.Snapshot, error) {
	var d received
	if err := c.get(ctx, root, nil, &d); err != nil {
		return nil, err
	}
	return c.snapshot(&d)
}

func (c *Client) snapshot(d *received) (*config.Snapshot, error) {
	content, problems := d.content()
	if len(problems) > 0 {
		return nil, c.notOfThisVersion(problems)
	}
	return config.NewSnapshot(d.Version, &content, c.check)
}

func (c *Client) notOfThisVersion(problems config.Problems) error {
	return fmt.Errorf("the proxy at %s and this program have different versions: %w", c.address, problems)
}

// Watch implements [config.Store].
func (c *Client) Watch(ctx context.Context) <-chan struct{} { return c.poller.Watch(ctx) }

// poll asks for a version other than the known one, and waits for the answer.
func (c *Client) poll(ctx context.Context) (version string, err error) {
	var d struct{ Version string }
	query := url.Values{"unlike": {c.known}, "wait": {c.wait.String()}}
	if c.known == "" {
		query = nil
	}
	err = c.do(ctx, http.MethodGet, versionPath, query, nil, requestTimeout+c.wait, &d)
	c.known = d.Version
	return d.Version, err
}

// Apply implements [config.Store].
func (c *Client) Apply(ctx context.Context, ch config.Change) (*config.Snapshot, error) {
	if err := ch.Check(); err != nil {
		return nil, err
	}
	sent := change{Who: ch.Who, Why: ch.Why, Expect: ch.Expect, Mutations: ch.Mutations}
	if ch.Content != nil {
		var err error
		if sent.Configuration, err = json.Marshal(encode("", ch.Content)); err != nil {
			return nil, fmt.Errorf("encoding the configuration: %w", err)
		}
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, fmt.Errorf("encoding the change: %w", err)
	}
	var o struct {
		outcome
		Configuration received `json:"configuration"`
	}
	if err := c.do(ctx, http.MethodPost, changesPath, url.Values{"return": {"configuration"}}, body, requestTimeout, &o); err != nil {
		return nil, err
	}
	c.poller.Ring()
	return c.snapshot(&o.Configuration)
}

// History implements [config.Store].
func (c *Client) History(ctx context.Context, limit int) (revisions []config.Revision, err error) {
	err = c.get(ctx, historyPath, url.Values{"limit": {strconv.Itoa(max(0, limit))}}, &revisions)
	return revisions, err
}

// At implements [config.Store].
func (c *Client) At(ctx context.Context, version string) (config.Content, error) {
	if slices.Contains([]string{"", ".", ".."}, version) && !c.closed.Load() { // these cannot be part of a path
		return config.Content{}, fmt.Errorf("%w: %q", config.ErrNoVersion, version)
	}
	var d received
	if err := c.get(ctx, versionsPath+url.PathEscape(version), nil, &d); err != nil {
		return config.Content{}, err
	}
	content, problems := d.content()
	if len(problems) > 0 {
		return config.Content{}, fmt.Errorf("cannot read version %s: %w", version, problems)
	}
	return content, nil
}

// Get reads another part of the admin API and decodes its JSON answer.
func (c *Client) Get(ctx context.Context, path string, to any) error {
	return c.get(ctx, path, nil, to)
}

// Close implements [config.Store].
func (c *Client) Close() error {
	c.closed.Store(true)
	c.poller.Close()
	c.transport.CloseIdleConnections()
	return nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, to any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, requestTimeout, to)
}

// do sends a request and decodes the answer. It waits for the answer for at most timeout.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, timeout time.Duration, to any) error {
	if c.closed.Load() {
		return config.ErrClosed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	target := c.target.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the proxy at %s: %w", c.address, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unanswered(ctx, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("the proxy at %s answered with more than %d bytes", c.address, maxAnswer)
	case response.StatusCode != http.StatusOK:
		return c.refused(response, method, path, answer)
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("cannot read the answer of the proxy at %s to %s %s: %w", c.address, method, path, err)
	}
	return nil
}

// UnreachableError says that no admin API answered.
type UnreachableError struct {
	Address string
	Reason  error
}

// Error names the address and the reason.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no proxy answers at %s: %v", e.Address, e.Reason)
}

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.Reason }

func (c *Client) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		err = cause
	}
	return &UnreachableError{c.address, reason(err)}
}

// refused returns the error that an answer describes.
func (c *Client) refused(response *http.Response, method, path string, answer []byte) error {
	var sent failed
	if err := json.Unmarshal(answer, &sent); err != nil || sent.Error.Text == "" {
		return fmt.Errorf("%s answered %q to %s %s: is it the admin API of wsbouncer?",
			c.address, response.Status, method, path)
	}
	if sent.Error.Kind == kindRefused {
		return fmt.Errorf("the proxy at %s refused: %w", c.address, sent.Error.err())
	}
	return sent.Error.err()
}
