package route

import "testing"

// A host's service comes before one of any host, and a path's before one of any path.
func TestFind(t *testing.T) {
	named := func(host, path string) *Service { return &Service{Name: host + path, Host: host, Path: path} }
	r := NewRoutes([]*Service{
		named("", "/a"), named("", ""), named("one.example", "/a"), named("one.example", ""), named("two.example", "/b"), named("2001:db8::1", "/a"),
		named("FD00:0::1", "/a"),
	})
	for _, c := range []struct{ host, path, want string }{
		{"", "/a", "/a"},
		{"other.example", "/a", "/a"},
		{"other.example", "/c", ""},
		{"one.example", "/a", "one.example/a"},
		{"ONE.example.", "/a", "one.example/a"},
		{"one.example:8080", "/c", "one.example"},
		{"two.example", "/b", "two.example/b"},
		{"two.example", "/a", "/a"},
		{"[2001:DB8::1]:443", "/a", "2001:db8::1/a"},
		{"[2001:db8::1]", "/a", "2001:db8::1/a"},
		{"[2001:db8:0::1]", "/a", "2001:db8::1/a"},
		{"[fd00::1]:80", "/a", "FD00:0::1/a"},
	} {
		if got := r.Find(c.host, c.path); got == nil || got.Name != c.want {
			t.Errorf("%s at %q is for %+v; want %q", c.path, c.host, got, c.want)
		}
	}
	r = NewRoutes([]*Service{named("", "/a")})
	if got := r.Find("one.example", "/c"); got != nil {
		t.Errorf("there is %+v", got)
	}
	r = NewRoutes(nil)
	if got := r.Find("", "/a"); got != nil {
		t.Errorf("there is %+v", got)
	}
}
