package external

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// The fields of an answer that say who the client is.
const (
	tenantField  = "X-Wsbouncer-Tenant"
	subjectField = "X-Wsbouncer-Subject"
	limitsField  = "X-Wsbouncer-Limits"
)

// maxRefusalHolds is how long an answer that turns a client away holds at most: its credential may become good.
const maxRefusalHolds = 10 * time.Second

// answer is what the server says about a client. It is immutable.
type answer struct {
	who    *identity.Identity // nil if the client is turned away
	status int
	header http.Header   // for a client that is turned away; nil for none
	holds  time.Duration // at most, as the answer says
}

// result returns the answer as a method's.
func (a *answer) result(attempt *auth.Attempt) (*identity.Identity, error) {
	if a.who != nil {
		return a.who, nil
	}
	return nil, &auth.Denied{
		Status: a.status, Header: a.header, Err: fmt.Errorf("the authentication server answers %d %s", a.status, http.StatusText(a.status)),
		Missing: givesNothing(attempt),
	}
}

// read returns what a response says. An error means that the server fails.
func read(response *http.Response) (*answer, error) {
	a := &answer{status: response.StatusCode, holds: holds(response.Header)}
	pass := ""
	switch {
	case a.status >= 200 && a.status <= 299:
		who, err := read2xx(response.Header)
		if err != nil {
			return nil, &badAnswer{err.Error()}
		}
		a.who = who
		return a, nil
	case a.status == http.StatusUnauthorized:
		pass = "Www-Authenticate"
	case a.status == http.StatusForbidden:
	case a.status == http.StatusTooManyRequests:
		pass, a.holds = "Retry-After", 0
	case a.status >= 500:
		return nil, &failedAnswer{a.status}
	default:
		return nil, &badAnswer{fmt.Sprintf("it is %d %s, and none of 2xx, 401, 403 and 429", a.status, http.StatusText(a.status))}
	}
	a.holds = min(a.holds, maxRefusalHolds)
	if values := response.Header[pass]; len(values) > 0 {
		a.header = http.Header{pass: values}
	}
	return a, nil
}

// read2xx returns who the client is.
func read2xx(header http.Header) (*identity.Identity, error) {
	who := &identity.Identity{Method: identity.MethodExternal}
	for _, f := range []struct {
		field, what string
		text        *string
	}{{tenantField, "tenant", &who.Tenant}, {subjectField, "subject", &who.Subject}} {
		values := header[f.field]
		switch {
		case len(values) == 0:
			continue
		case len(values) > 1:
			return nil, fmt.Errorf("it has %s more than once", f.field)
		}
		if err := identity.CheckText(f.what, values[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.field, err)
		}
		*f.text = values[0]
	}
	for pair := range strings.SplitSeq(strings.Join(header[limitsField], ","), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, text, ok := strings.Cut(pair, "=")
		err := errors.New("use name=value, name=value")
		if ok {
			err = who.Limits.Set(strings.TrimSpace(name), strings.TrimSpace(text))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", limitsField, err)
		}
	}
	return who, nil
}

// holds returns for how long an answer may be used again, as it says (RFC 9111, section 5.2.2).
func holds(header http.Header) time.Duration {
	most := time.Duration(math.MaxInt64)
	for directive := range strings.SplitSeq(strings.Join(header["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				most = min(most, time.Duration(seconds)*time.Second)
			}
		}
	}
	return most
}

// maxAnswers is how many answers each of the two generations of a checker's answers has.
const maxAnswers = 2048
