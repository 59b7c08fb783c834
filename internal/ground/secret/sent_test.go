package secret

import (
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
)

func TestSent(t *testing.T) {
	const key = `to"p<s&cr+t/ `
	var sent Sent
	sent.AddHeader("Bearer " + key + "x")
	sent.AddHeader("Basic " + base64.StdEncoding.EncodeToString([]byte("me:password")))
	sent.AddHeader("abc")
	sent.AddQuery("model=large&key=env:KEY&api_key=literal&y=1;pass=behind", "model=large&key=q%2Bvalue&api_key=literal&y=1;pass=behind")
	for text, want := range map[string]string{
		"Authorization: Bearer " + key + "x":                             "Authorization: (hidden)",
		"the key " + key + "x is wrong":                                  "the key (hidden) is wrong",
		"a " + url.QueryEscape(key+"x"):                                  "a (hidden)",
		"a " + strings.ToLower(url.PathEscape(key+"x")):                  "a (hidden)",
		`{"key":"to\"p\u003cs\u0026cr+t/ x"}`:                            `{"key":"(hidden)"}`,
		"to&#34;p&lt;s&amp;cr+t/ x":                                      "(hidden)",
		"b " + base64.StdEncoding.EncodeToString([]byte(key+"x")) + " c": "b (hidden) c",
		"me:password":                       "(hidden)",
		"no password":                       "no (hidden)",
		"abc is too short, large no secret": "abc is too short, large no secret",
		"/?key=q%2Bvalue&api_key=literal":   "/?key=(hidden)&api_key=(hidden)",
		"q+value q%2bvalue behind":          "(hidden) (hidden) (hidden)",
	} {
		if got := sent.Mask(text, false); got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
	}
	if got := sent.Mask("it ends with liter", true); got != "it ends with (hidden)" {
		t.Error(got)
	}
	err := sent.Error(errors.Join(errors.New("literal"), io.EOF))
	if err.Error() != "(hidden)\nEOF" || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
