// Package remote reads and changes the configuration of a running proxy over its admin API: [Handler] serves a store, and [Client]
// is a store. So commands change the configuration in the same way, whether they talk to a proxy or to its database.
//
// Both sides send JSON with the texts of the fields. As in a database, fields that are not set are left out. This package does
// not use the format of any other store, and imports none of them.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// Times on the client's side.
const (
	defaultWait = 20 * time.Second // how long one request waits for a change
	retry       = 300 * time.Millisecond
)

// Client is the configuration of a running proxy. Its methods may be called from any goroutine.
type Client struct {
	api    *client.Client      // static
	check  config.ProfileCheck // static
	poller *config.Poller      // static
	known  string              // owned by the poller's goroutine: the latest version
	closed atomic.Bool
}

var _ config.Store = (*Client)(nil)

// New returns the configuration of the proxy that a client talks to, which has checked the profiles that it sends. Close closes the client, too.
func New(connection *client.Client, o config.Options) *Client {
	c := &Client{api: connection, check: o.Profiles}
	c.poller = config.NewPoller(0, retry, c.poll)
	return c
}

// API returns the client of the whole admin API, for what is not configuration. Close ends it, too.
func (c *Client) API() *client.Client { return c.api }

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
	return config.NewShownSnapshot(d.Version, &content, c.check) // the proxy has hidden secrets from a reader
}

func (c *Client) notOfThisVersion(problems config.Problems) error {
	return fmt.Errorf("the proxy at %s and this program have different versions: %w", c.api.Address(), problems)
}

// Watch implements [config.Store].
func (c *Client) Watch(ctx context.Context) <-chan struct{} { return c.poller.Watch(ctx) }

// poll asks for a version other than the known one, and waits for the answer.
func (c *Client) poll(ctx context.Context) (version string, err error) {
	var d struct{ Version string }
	query := url.Values{"unlike": {c.known}, "wait": {defaultWait.String()}}
	if c.known == "" {
		query = nil
	}
	err = c.do(ctx, client.Request{Path: versionPath, Query: query, Timeout: client.Timeout + defaultWait}, &d)
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
	var o struct {
		outcome
		Configuration received `json:"configuration"`
	}
	r := client.Request{Method: http.MethodPost, Path: changesPath, Query: url.Values{"return": {"configuration"}}, Body: sent}
	if err := c.do(ctx, r, &o); err != nil {
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

// Close implements [config.Store].
func (c *Client) Close() error {
	c.closed.Store(true)
	c.poller.Close()
	return c.api.Close()
}

func (c *Client) get(ctx context.Context, path string, query url.Values, to any) error {
	return c.do(ctx, client.Request{Path: path, Query: query}, to)
}

// do sends a request and decodes the answer. It returns the error of the store that the proxy sent.
func (c *Client) do(ctx context.Context, r client.Request, to any) error {
	if c.closed.Load() {
		return config.ErrClosed
	}
	err := c.api.Do(ctx, r, to)
	if answered, ok := errors.AsType[*client.Error](err); ok && answered.Kind != kindRefused {
		var sent failed
		if json.Unmarshal(answered.Body, &sent) == nil {
			return sent.Error.err()
		}
	}
	return err
}
