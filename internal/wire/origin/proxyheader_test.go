package origin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pires/go-proxyproto"
)

// header returns the PROXY header of a client, as another implementation writes it.
func header(t testing.TB, version byte, from string, tlvs ...proxyproto.TLV) string {
	t.Helper()
	to := "10.0.0.5:80"
	if strings.HasPrefix(from, "[") {
		to = "[2001:db8::5]:80"
	}
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(at(from).AddrPort), net.TCPAddrFromAddrPort(at(to).AddrPort))
	if err := h.SetTLVs(tlvs); err != nil {
		t.Fatal(err)
	}
	text, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// raw returns a header of version 2 with any content.
func raw(command, family byte, length int, content string) string {
	b := append([]byte(signature2), command, family)
	return string(binary.BigEndian.AppendUint16(b, uint16(length))) + content
}

const (
	request = "GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n\x81\x80early"
	v4      = "\xc0\x00\x02\x07\x0a\x00\x00\x05\x10\x01\x00\x50" // 192.0.2.7:4097 to 10.0.0.5:80
)

// TestProxyHeaders has each header arrive at once, byte by byte, and in halves, with the request behind it, of which nothing may be lost.
func TestProxyHeaders(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"version 1":                  {header(t, 1, "192.0.2.7:4097"), "192.0.2.7:4097"},
		"version 1, IPv6":            {header(t, 1, "[2001:db8::7]:4097"), "[2001:db8::7]:4097"},
		"version 1, as HAProxy does": {"PROXY TCP4 192.0.2.7 10.0.0.5 4097 80\r\n", "192.0.2.7:4097"},
		"version 1, the longest":     {"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", ""},
		"version 1, UNKNOWN":         {"PROXY UNKNOWN\r\n", ""},
		"version 1, IPv4 in IPv6":    {"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:10.0.0.5 4097 80\r\n", "192.0.2.7:4097"},
		"version 2":                  {header(t, 2, "192.0.2.7:4097"), "192.0.2.7:4097"},
		"version 2, IPv6":            {header(t, 2, "[2001:db8::7]:4097"), "[2001:db8::7]:4097"},
		"version 2, TLVs":            {header(t, 2, "192.0.2.7:4097", proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("example.com")}, proxyproto.TLV{Type: 0xea, Value: make([]byte, 500)}), "192.0.2.7:4097"},
		"version 2, as many as may":  {header(t, 2, "192.0.2.7:4097", proxyproto.TLV{Type: 0xea, Value: make([]byte, max2-12-3)}), "192.0.2.7:4097"},
		"version 2, TLVs that lie":   {raw(proxy2, 0x11, 15, v4+"\x04\xff\xff"), "192.0.2.7:4097"},
		"version 2, LOCAL":           {raw(local2, 0, 0, ""), ""},
		"version 2, LOCAL with more": {raw(local2, 0x11, 15, v4+"abc"), ""},
		"version 2, LOCAL, odd":      {raw(local2, 0x21, 2, "ab"), ""},
		"version 2, no family":       {raw(proxy2, 0, 4, "abcd"), ""},
		"version 2, a Unix socket":   {raw(proxy2, 0x31, 216, strings.Repeat("/", 216)), ""},
		"version 2, UDP":             {raw(proxy2, 0x12, 12, v4), ""},
		"version 2, IPv4 in IPv6":    {raw(proxy2, 0x21, 36, strings.Repeat("\x00", 10)+"\xff\xff\xc0\x00\x02\x07"+strings.Repeat("\x00", 10)+"\xff\xff\x0a\x00\x00\x05\x10\x01\x00\x50"), "192.0.2.7:4097"},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "in halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			r := reader(strings.NewReader(c.sent + request))
			source, found, behind, err := ReadProxyHeader(r)
			if err != nil || !found || source.IsValid() != (c.want != "") || c.want != "" && source != at(c.want) {
				t.Errorf("%s, %s: %s, %t, %v; want %s", name, how, source, found, err, c.want)
			}
			if len(behind) > max1 {
				t.Errorf("%s, %s: %d bytes behind the header were read", name, how, len(behind))
			}
			if rest, err := io.ReadAll(io.MultiReader(bytes.NewReader(behind), r)); string(rest) != request || err != nil {
				t.Errorf("%s, %s: behind it is %q, %v", name, how, rest, err)
			}
		}
	}
}

// TestNoProxyHeader has connections begin with something else, of which nothing may be lost either.
func TestNoProxyHeader(t *testing.T) {
	for _, sent := range []string{request, "P", "PROXYING", "PROXX TCP4", "proxy TCP4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\nGET", "\r\n\r\n\x00\r\nQUIX\n", "\x16\x03\x01"} {
		r := iotest.OneByteReader(strings.NewReader(sent + request))
		source, found, behind, err := ReadProxyHeader(r)
		rest, _ := io.ReadAll(r)
		if found || err != nil || source.IsValid() || string(behind)+string(rest) != sent+request {
			t.Errorf("%q: %s, %t, %v, behind it %q", sent, source, found, err, behind)
		}
	}
}

func TestBadProxyHeaders(t *testing.T) {
	for name, c := range map[string]struct{ sent, says string }{
		"version 1 without an end":     {"PROXY TCP4 " + strings.Repeat("1", 200), "at most 107 bytes"},
		"version 1 without CR":         {"PROXY TCP4 192.0.2.7 10.0.0.5 4097 80\n", "CR and LF"},
		"version 1, a name":            {"PROXY TCP4 client 10.0.0.5 4097 80\r\n", "an address of it"},
		"version 1, wrong family":      {"PROXY TCP4 2001:db8::7 10.0.0.5 4097 80\r\n", "an address of it"},
		"version 1, a zone":            {"PROXY TCP6 fe80::1%a 2001:db8::5 4097 80\r\n", "an address of it"},
		"version 1, a wrong port":      {"PROXY TCP4 192.0.2.7 10.0.0.5 65536 80\r\n", "a port of it"},
		"version 1, UDP":               {"PROXY UDP4 192.0.2.7 10.0.0.5 4097 80\r\n", "address family"},
		"version 1, something missing": {"PROXY TCP4 192.0.2.7\r\n", "address family or protocol is unknown, or something is missing"},
		"version 1, nothing":           {"PROXY \r\n", "address family"},
		"version 1, too many spaces":   {"PROXY TCP4  192.0.2.7 10.0.0.5 4097 80\r\n", "address family"},
		"version 1, an HTTP request":   {"PROXY /x HTTP/1.1\r\n", "address family"},
		"version 3":                    {raw(0x31, 0x11, 12, v4), "its version is 3: use 1 or 2"},
		"version 0":                    {raw(0x01, 0x11, 12, v4), "its version is 0"},
		"an unknown command":           {raw(0x22, 0x11, 12, v4), "its command is 2"},
		"an unknown family":            {raw(proxy2, 0x41, 12, v4), "address family"},
		"an unknown protocol":          {raw(proxy2, 0x13, 12, v4), "address family"},
		"too long":                     {raw(proxy2, 0x11, max2+1, v4), "4097 bytes follow its fixed part: at most 4096 may"},
		"as long as can be":            {raw(local2, 0, 0xffff, ""), "65535 bytes follow"},
		"too short for IPv4":           {raw(proxy2, 0x11, 11, v4), "too short"},
		"too short for IPv6":           {raw(proxy2, 0x21, 12, v4), "too short"},
		"nothing for IPv4":             {raw(proxy2, 0x11, 0, ""), "too short"},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			_, found, _, err := ReadProxyHeader(reader(strings.NewReader(c.sent + request)))
			bad := (*HeaderError)(nil)
			if !found || !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.says) || !strings.HasPrefix(bad.Reason, "bad PROXY header: ") {
				t.Errorf("%s, %s: %t, %v; want %q", name, how, found, err, c.says)
			}
		}
	}
}

// TestCutProxyHeaders cuts headers at each byte, by the end of the stream and by the deadline.
func TestCutProxyHeaders(t *testing.T) {
	for _, whole := range []string{header(t, 1, "192.0.2.7:4097"), header(t, 2, "192.0.2.7:4097"), raw(local2, 0, 9, "123456789"), raw(proxy2, 0x11, max2, v4+strings.Repeat("x", max2-12))} {
		for n := range len(whole) {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if _, _, _, err := ReadProxyHeader(strings.NewReader(whole[:n])); err != want {
				t.Errorf("%q: %v; want %v", whole[:n], err, want)
			}
			late := io.MultiReader(strings.NewReader(whole[:n]), iotest.ErrReader(os.ErrDeadlineExceeded))
			if _, _, _, err := ReadProxyHeader(late); err != os.ErrDeadlineExceeded {
				t.Errorf("%q, and then nothing in time: %v", whole[:n], err)
			}
		}
	}
}
