package config

import (
	"fmt"
	"slices"
	"strings"
)

// OriginWarnings returns which services take what browsers add by themselves, and do not say which pages may use it. asked: listeners ask clients for
// certificates, which is all that services without authentication know of them.
func (c *Content) OriginWarnings(asked bool) (warnings []string) {
	for _, name := range sortedKeys(c.Services) {
		service := c.Services[name]
		var what []string
		if service.TakesCookies() || slices.ContainsFunc(service.Pass, func(word string) bool { return strings.EqualFold(word, "header:Cookie") }) {
			what = append(what, "cookies")
		}
		if service.TakesCertificates() || asked && len(service.AuthMethods()) == 0 {
			what = append(what, "client certificates")
		}
		if len(what) > 0 && len(service.AllowOrigin) == 0 {
			warnings = append(warnings, fmt.Sprintf("the service %s takes %s, which browsers send for the pages of any site: only pages of the service's own host may use them; "+
				"set allow-origin to the origins of your pages, or to * for all", name, strings.Join(what, " and ")))
		}
	}
	return warnings
}
