package secret

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minSent is the size of the smallest secret, in bytes, that [Sent] looks for: shorter ones are also parts of words.
const minSent = 4

// Sent is the secrets that a server got. The server may repeat them in what it answers, which is masked before it is shown.
type Sent []string

// AddHeader adds a header's value, and what stands behind its first words, such as Bearer.
func (s *Sent) AddHeader(value string) {
	const words = 3
	for range words {
		value = strings.Trim(value, " \t")
		*s = append(*s, value)
		scheme, rest, ok := strings.Cut(value, " ")
		if !ok {
			return
		}
		if strings.EqualFold(scheme, "Basic") {
			if plain, err := base64.StdEncoding.DecodeString(strings.Trim(rest, " ")); err == nil {
				_, password, _ := strings.Cut(string(plain), ":")
				*s = append(*s, string(plain), password)
			}
		}
		value = rest
	}
}

// AddQuery adds the parameters of a query, as it was sent, that are likely secrets, and those that differ from the query as it was configured.
func (s *Sent) AddQuery(configured, query string) {
	before, after := strings.Split(configured, "&"), strings.Split(query, "&")
	for i, parameter := range after {
		name, value, _ := strings.Cut(parameter, "=")
		if len(before) == len(after) && before[i] == parameter {
			if at, _ := literalBehind(value); at >= 0 {
				value = value[at:]
			} else if !isParameterSecret(name) {
				continue
			}
		}
		*s = append(*s, value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			*s = append(*s, plain)
		}
	}
}

// Mask returns a text with [Hidden] in place of the secrets, also of those that are encoded as in URLs, in base64, JSON or HTML. With cut, the
// text may end within a secret.
func (s Sent) Mask(text string, cut bool) string {
	if len(s) == 0 || text == "" {
		return text
	}
	forms := s.forms()
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, Hidden)
	}
	if !cut {
		return text
	}
	for _, form := range forms {
		for n := min(len(form)-1, len(text)); n >= minSent; n-- {
			if strings.HasSuffix(text, form[:n]) {
				return text[:len(text)-n] + Hidden
			}
		}
	}
	return text
}

// In reports whether a text has one of the secrets in it, in whatever case.
func (s Sent) In(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(s.forms(), func(form string) bool { return strings.Contains(text, strings.ToLower(form)) })
}

// forms returns how the secrets may be written, the longest ones first.
func (s Sent) forms() (forms []string) {
	for _, secret := range s {
		if len(secret) < minSent {
			continue
		}
		quoted := strconv.Quote(secret)
		forms = append(forms, secret, quoted[1:len(quoted)-1], html.EscapeString(secret))
		for _, escaped := range []string{url.QueryEscape(secret), url.PathEscape(secret)} {
			forms = append(forms, escaped, lowerEscapes(escaped))
		}
		if text, err := json.Marshal(secret); err == nil {
			forms = append(forms, string(text[1:len(text)-1]))
		}
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(secret))
			forms = append(forms, encoded+"==", encoded+"=", encoded)
		}
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(forms)
}

// lowerEscapes returns a percent-encoded text with small hexadecimal digits.
func lowerEscapes(text string) string {
	pieces := strings.Split(text, "%")
	for i, piece := range pieces {
		if i > 0 && len(piece) >= 2 {
			pieces[i] = strings.ToLower(piece[:2]) + piece[2:]
		}
	}
	return strings.Join(pieces, "%")
}

// Error returns an error whose text is masked, and which still wraps the others.
func (s Sent) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if masked := s.Mask(text, false); masked != text {
		return &maskedError{masked, err}
	}
	return err
}

// IsMasked reports whether an error is one of [Sent.Error] whose text was masked, unlike those that it wraps.
func IsMasked(err error) bool {
	_, ok := err.(*maskedError) //nolint:errorlint // this one, not what it wraps
	return ok
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }
