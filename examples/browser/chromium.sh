#!/bin/sh
# Prints the path of a Chromium for `make test-browser`, which it installs where it can: as root, with Debian's packages.
set -u
find_chromium() {
	for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
		command -v "$name" && return
	done
	return 1
}
find_chromium && exit
if [ -n "${CHROMIUM:-}" ]; then
	echo "there is no $CHROMIUM" >&2
elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "there is no Chromium (Debian: apt-get install chromium)" >&2
elif ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium fonts-dejavu-core; } >&2; then
	echo "Chromium could not be installed" >&2
else
	find_chromium && exit
fi
exit 1
