package origin

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzProxyHeader reads any bytes as a connection that may begin with a PROXY header. It must come to the same result however the bytes
// arrive, and lose none of those behind the header.
func FuzzProxyHeader(f *testing.F) {
	for _, text := range []string{
		request, "PROXY UNKNOWN\r\n" + request, header(f, 1, "192.0.2.7:4097") + request, header(f, 2, "[2001:db8::7]:4097") + request,
		raw(local2, 0, 3, "abc") + request, raw(proxy2, 0x11, 15, v4+"\x04\x00\x00"), raw(proxy2, 0x13, 12, v4),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole := bytes.NewReader(sent)
		source, found, behind, err := ReadProxyHeader(whole)
		slow := iotest.OneByteReader(bytes.NewReader(sent))
		source1, found1, behind1, err1 := ReadProxyHeader(slow)
		if source != source1 || (err == nil) != (err1 == nil) || err == nil && found != found1 {
			t.Fatalf("%q at once: %s, %t, %v; byte by byte: %s, %t, %v", sent, source, found, err, source1, found1, err1)
		}
		if bad := (*HeaderError)(nil); err != nil && !errors.As(err, &bad) && err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Fatalf("%q: %v", sent, err)
		}
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(io.MultiReader(bytes.NewReader(behind), whole))
		rest1, _ := io.ReadAll(io.MultiReader(bytes.NewReader(behind1), slow))
		if !bytes.Equal(rest, rest1) || !bytes.HasSuffix(sent, rest) || !found && len(rest) != len(sent) || len(behind) > max1 {
			t.Fatalf("%q: behind the header is %q; byte by byte %q", sent, rest, rest1)
		}
		if source.Addr().Zone() != "" || source.Addr().Is4In6() {
			t.Fatalf("%q: %s", sent, source)
		}
	})
}

// FuzzClient has a client write anything before what the first trusted load balancer appends, which always is the client's address.
func FuzzClient(f *testing.F) {
	f.Add("for=\"", "for=192.0.2.1")
	f.Add("192.0.2.1, ", "")
	f.Add("for=\\", "for=\"[2001:db8::1]\";host=\"a\\\"")
	policies := map[string]*Policy{XForwardedFor: policy(f, XForwardedFor, ProxyOff, "10.0.0.0/8"), Forwarded: policy(f, Forwarded, ProxyOff, "10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, line, before string) {
		if strings.ContainsAny(line+before, "\r\n\x00") { // net/http refuses such fields
			return
		}
		source := Address{netip.MustParseAddrPort("10.0.0.1:80")}
		for said, want := range map[string]string{"203.0.113.9": "203.0.113.9", "[2001:db8::9]:80": "[2001:db8::9]:80"} {
			for header, appended := range map[string]string{XForwardedFor: said, Forwarded: `for="` + said + `"`} {
				name := http.CanonicalHeaderKey(header)
				for _, lines := range [][]string{{before, line + ", " + appended}, {before, line, appended}, {before, line + "," + appended, strings.ReplaceAll(appended, said, "10.0.0.2")}} {
					if got := policies[header].Client(source, http.Header{name: lines}); got.String() != want {
						t.Fatalf("%s %q: the client is %s; want %s", header, lines, got, want)
					}
				}
				_ = policies[header].Client(source, http.Header{name: {before, line}}).String()
			}
		}
	})
}
