# shellcheck shell=sh
#
# The source of PostgreSQL, from Debian's source package of the version that Debian's server has. Sourced after etc/setup.sh.
package=postgresql-15

# apt with the package sources that this machine has, read as sources of source packages; the machine's own lists and
# settings stay as they are.
apt_source() {
	apt=$room/apt
	mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
	for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -e "$list" ] || sed -n 's/^deb[[:space:]]/deb-src /p' "$list" >"$apt/parts/${list##*/}"
	done
	for list in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$apt/parts/${list##*/}"
	done
	program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/parts" \
		-o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@"
}

# The newest version that can be downloaded: an archive may list a version and its mirror may lack the files.
fetch_postgres() { # DIRECTORY [PATTERN...]: all of the source, or what matches, in the directory
	to=$1
	shift
	say "Fetching the source of $package"
	# a source of packages without their sources is no reason to stop; that this package is nowhere will be
	apt_source apt-get update >"$room/apt.log" 2>&1 || :
	mkdir -p "$room/source"
	for version in $(apt_source apt-cache madison "$package" 2>/dev/null | awk -F' *[|] *' '/Sources/ { print $2 }'); do
		if (cd "$room/source" && apt_source apt-get source --download-only --only-source "$package=$version") \
			>>"$room/apt.log" 2>&1; then
			mkdir -p "$to"
			tar -x -f "$(find "$room/source" -name '*.orig.tar.*' ! -name '*.asc')" -C "$to" --strip-components=1 --no-same-owner \
				--wildcards "$@"
			[ "$(id -u)" != 0 ] || chown -R "$account:" "$to"
			return
		fi
	done
	tail -n 15 "$room/apt.log" >&2
	fail "the source of $package cannot be fetched" "check the network, and that apt's sources have it"
}
