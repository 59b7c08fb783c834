package api

import (
	"net/url"
	"strings"
	"testing"
)

func TestTapQuery(t *testing.T) {
	for text, want := range map[string]TapQuery{
		"session=q7m2kd4x-1": {Session: "q7m2kd4x-1", First: 1, Text: 200, Seconds: 3600},
		"service=stt&first=3&text=0&for=0.5&who=ana&why=incident+7": {
			Service: "stt", First: 3, Text: 0, Seconds: 0.5, Order: Order{Who: "ana", Why: "incident 7"},
		},
		"backend=gpu-1&client=10.1.2.3":                   {Backend: "gpu-1", Client: "10.1.2.3", First: 1, Text: 200, Seconds: 3600},
		"client=%5B2001:DB8:0::1%5D:80":                   {Client: "[2001:db8::1]:80", First: 1, Text: 200, Seconds: 3600},
		"client=::ffff:10.1.2.3&text=4096&text=7":         {Client: "10.1.2.3", First: 1, Text: 7, Seconds: 3600},
		"client=%5B::ffff:10.1.2.3%5D:4000&service=a+b/c": {Client: "10.1.2.3:4000", Service: "a b/c", First: 1, Text: 200, Seconds: 3600},
	} {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseTapQuery(values)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseTapQuery(got.Values()); err != nil || again != got {
			t.Errorf("%s: encoded and read again: %+v, %v", text, again, err)
		}
	}
	for text, says := range map[string]string{
		"":                     "nothing is chosen: use session=ID",
		"first=2":              "nothing is chosen",
		"session=a&service=b":  "leave out client, backend, service and first",
		"session=a&first=1":    "leave out",
		"service=a&first=0":    `first: invalid number "0": use a whole number from 1 to 1000`,
		"service=a&first=1001": "from 1 to 1000",
		"service=a&text=-1":    "text: invalid number",
		"service=a&text=4097":  "from 0 to 4096",
		"service=a&for=0":      `for: invalid number "0": use seconds, above 0 and at most 3600`,
		"service=a&for=3601":   "at most 3600",
		"service=a&for=NaN":    "at most 3600",
		"service=a&for=1h":     `invalid number "1h"`,
		"client=gpu":           `client: invalid address "gpu"`,
		"client=10.1.2":        "use an IP address",
		"service=a&frist=3":    `unknown parameter "frist": use session`,
		"service=a&why=" + strings.Repeat("x", 201): "201 bytes are too many",
	} {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseTapQuery(values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v; want %s", text, err, says)
		}
	}
}
