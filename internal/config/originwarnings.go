package config

import (
	"fmt"
	"slices"
	"strings"
)

// OriginWarnings returns which services take what browsers add by themselves, and do not say which pages may use it.
func (s *Snapshot) OriginWarnings() (warnings []string) {
	for name, service := range s.Services() {
		var what []string
		if service.TakesCookies() || slices.ContainsFunc(service.Pass, func(word string) bool { return strings.EqualFold(word, "header:Cookie") }) {
			what = append(what, "cookies")
		}
		if service.TakesCertificates() {
			what = append(what, "client certificates")
		}
		if len(what) > 0 && len(service.AllowOrigin) == 0 {
			warnings = append(warnings, fmt.Sprintf("the service %s takes %s, which browsers send for the pages of any site: only pages of the service's own host may use them; "+
				"set allow-origin to the origins of your pages, or to * for all", name, strings.Join(what, " and ")))
		}
	}
	return warnings
}
