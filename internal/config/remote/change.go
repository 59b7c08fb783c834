package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// change applies a change, or returns what it would change.
func (h *handler) change(r *http.Request) (any, error) {
	c, dry, err := h.read(r)
	if err == nil && h.o.Refuse != nil {
		err = h.o.Refuse(c)
	}
	if err != nil {
		if problems := config.Problems(nil); errors.As(err, &problems) { // anything else is not understood, and no change
			h.tell(r, c, "", err)
		}
		return nil, err
	}
	return inBounds(func(r *http.Request) (any, error) { // the time that the request took to arrive does not count
		if dry {
			return h.try(r.Context(), c)
		}
		return h.apply(r, c)
	})(r)
}

// apply applies a parsed change.
func (h *handler) apply(r *http.Request, c config.Change) (any, error) {
	before, _ := h.store.Load(r.Context()) // ignore the error: this change may repair an invalid configuration
	after, err := h.store.Apply(r.Context(), c)
	if err != nil {
		h.tell(r, c, "", inTime(r.Context(), err))
		return nil, err
	}
	h.tell(r, c, after.Version(), nil)
	o := outcome{Version: after.Version(), Edits: config.Edits{}}
	switch {
	case r.URL.Query().Get("return") == "configuration":
		content := after.Content()
		d := encode(after.Version(), &content)
		o.Configuration = &d
	case before == nil || before.Version() != after.Version(): // others may have written, too: the history says who changed what
		const most = 100
		revisions, err := h.store.History(r.Context(), most)
		newest := slices.IndexFunc(revisions, func(r config.Revision) bool { return r.Version == o.Version })
		if err == nil && newest >= 0 { // a file has its old version again when it has its old content
			o.Edits = revisions[newest].Edits
		}
	}
	return o, nil
}

// tell reports a change that was asked for to whom it may concern.
func (h *handler) tell(r *http.Request, c config.Change, version string, err error) {
	if h.o.Changed != nil {
		h.o.Changed(r, c, version, err)
	}
}

// try returns what a change would do.
func (h *handler) try(ctx context.Context, c config.Change) (any, error) {
	before, err := h.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if c.Expect != "" && c.Expect != before.Version() {
		return nil, &config.ConflictError{Expected: c.Expect, Current: before.Version()}
	}
	from := before.Content()
	to, err := c.Apply(&from, h.o.Profiles)
	if err != nil {
		return nil, err
	}
	edits := config.Diff(&from, &to)
	if edits == nil {
		edits = config.Edits{}
	}
	return outcome{Version: before.Version(), Edits: edits, DryRun: true}, nil
}

// read reads a request's body.
func (h *handler) read(r *http.Request) (c config.Change, dry bool, err error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" { // web pages of other origins can send this type only after a preflight request (CORS)
		return c, false, &statusError{http.StatusUnsupportedMediaType, kindRequest, fmt.Sprintf(
			"invalid Content-Type %.100q: use application/json", r.Header.Get("Content-Type"))}
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return c, false, &statusError{http.StatusRequestEntityTooLarge, kindRequest, fmt.Sprintf("the change has more than %d bytes", tooLarge.Limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return c, false, &statusError{http.StatusRequestTimeout, kindRequest, "the change did not arrive in time"}
	}
	if err != nil {
		return c, false, badRequest("cannot read the change: %v", err)
	}
	var sent change
	if err := strictly(body, &sent); err != nil {
		return c, false, badRequest("invalid change: %v: use the keys %s", err, allowedInChange)
	}
	c = config.Change{Expect: sent.Expect, Who: sent.Who, Why: sent.Why, Mutations: sent.Mutations}
	if len(sent.Configuration) > 0 && string(sent.Configuration) != "null" {
		var whole received
		if err := strictly(sent.Configuration, &whole); err != nil {
			return c, false, badRequest("invalid configuration: %v: use the keys version, services, backends, profiles, tenants and keys", err)
		}
		content, problems := whole.content()
		if len(problems) > 0 {
			return c, false, problems.With(content.Validate(h.o.Profiles)) // report all problems at once
		}
		c.Content = &content
	}
	if c.Content == nil && len(c.Mutations) == 0 {
		return c, false, badRequest("the change is empty: use the keys %s", allowedInChange)
	}
	if err := c.Check(); err != nil {
		return c, false, badRequest("%v", err)
	}
	return c, sent.DryRun, nil
}

// strictly decodes one JSON value. It refuses unknown keys, since their values would be lost.
func strictly(data []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the JSON value")
	}
	return nil
}
