#!/bin/sh
#
# All the tests, from a machine with nothing but Debian's base packages: sh test/run.sh [OPTION...] [PYTEST ARGUMENT...]
#
#	--build-dir DIR	build there and keep it: the next run with it compiles only what changed
#	--keep		keep the work directory, and say where it is
#	--no-clang	leave out the second compiler
#	anything else	goes to pytest: -k EXPRESSION, wire/test_cancel.py, -n 0 -x ...
#
# As root, or with sudo for the packages. Builds with sanitizers, twice, and outside the source tree; runs the unit tests
# of both builds, then those with the real binary: on the wire (test/wire) and with a real PostgreSQL (test/live).
# The last line counts them all; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

keep=no
clang=yes
builds=
while [ $# -gt 0 ]; do
	case $1 in
	--build-dir)
		[ $# -gt 1 ] || fail "--build-dir wants a directory"
		builds=$2
		shift
		;;
	--keep) keep=yes ;;
	--no-clang) clang=no ;;
	--help | -h)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*) break ;;
	esac
	shift
done

passed=0
failed=0
skipped=0

# STATUS: the last line, and the end.
finish() {
	[ "$skipped" = 0 ] || say "$skipped skipped"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" != 0 ]
	exit
}

# WHAT COMMAND...: as the account; what it prints is shown only when it fails, which is counted as one failed test.
step() {
	what=$1
	shift
	if as_account "$@" >"$room/step.log" 2>&1; then
		return 0
	fi
	grep -v '^  [A-Z]* *[^ ]*$' "$room/step.log" | tail -n 60
	say "FAILED: $what"
	failed=$((failed + 1))
	return 1
}

# DIRECTORY: adds up what the programs of `make check` counted; one that died before it could count is one failure.
count_units() {
	for result in "$1"/test/unit/*/*.trs; do
		[ -e "$result" ] || continue
		log=${result%.trs}.log
		counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
		verdict=$(sed -n 's/^:global-test-result: //p' "$result")
		good=${counts% *} bad=${counts#* }
		if [ "$verdict" != PASS ]; then
			tail -n 60 "$log"
			say "FAILED: ${log#"$1/"} ($verdict)"
			[ "${bad:-0}" != 0 ] || bad=1
		fi
		passed=$((passed + ${good:-0}))
		failed=$((failed + ${bad:-0}))
	done
}

# NAME CONFIGURE-OPTION...: builds in $builds/NAME, then builds and runs the unit tests there.
build_and_check() {
	build=$builds/$1
	shift
	as_account mkdir -p "$build"
	if [ ! -e "$build/config.status" ]; then
		step "configure" sh -c 'cd "$1" && shift && exec "$@"' sh "$build" ../source/configure -q "$@" || return 1
	fi
	step "make" make -s -C "$build" -j"$(nproc)" || return 1
	rm -f "$build"/test/unit/*/*.trs
	before=$failed
	as_account make -s -k -C "$build" -j"$(nproc)" check LOG_COMPILER=timeout LOG_FLAGS=300 \
		>"$room/check.log" 2>&1 && status=0 || status=1
	count_units "$build"
	if [ "$status" != 0 ] && [ "$failed" = "$before" ]; then
		tail -n 60 "$room/check.log"
		say "FAILED: make check"
		failed=$((failed + 1))
		return 1
	fi
}

# ---- What has to be there

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libsystemd-dev clang libclang-rt-dev postgresql openssl python3-venv ca-certificates
postgres_find
setup_room
if [ "$keep" = yes ]; then
	# the step that removes the room finds nothing under the old name
	at_exit "mv '$room' '$room.kept' && echo 'Kept: $room.kept' >&2"
fi
if [ -z "$builds" ]; then
	builds=$room
else
	mkdir -p "$builds"
	builds=$(cd "$builds" && pwd)
	[ "$(id -u)" != 0 ] || chown "$account:" "$builds"
fi

# ---- The source, twice compiled

say "Building with gcc and sanitizers, unit tests"
rm -rf "$builds/source"
(
	room=$builds
	setup_copy source
)
step "autoreconf" sh -c 'cd "$1" && autoreconf -fi' sh "$builds/source" || finish
build_and_check gcc CC=gcc --enable-sanitizers --enable-werror || finish
if [ "$clang" = yes ]; then
	say "The same with clang"
	build_and_check clang CC=clang --enable-sanitizers --enable-werror || finish
fi

# ---- The binary, on the wire and in front of PostgreSQL

if ! as_account cmp -s "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"; then
	say "Installing what Python needs into a virtual environment"
	step "python3 -m venv" /usr/bin/python3 -m venv --clear "$builds/venv" || finish
	step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir \
		-r "$builds/source/test/requirements.txt" || finish
	as_account cp "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"
fi

say "Scenes on the wire, and with a real PostgreSQL"
as_account mkdir -p "$room/tmp"
if as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$builds/source/test" \
	env TMPDIR="$room/tmp" PGWEIR="$builds/gcc/pgweir" PGWEIR_COUNTS="$room/counts" PYTHONDONTWRITEBYTECODE=1 \
	"$builds/venv/bin/python" -m pytest -q --tb=short -n 3 "$@"; then
	status=0
else
	status=1
fi
if [ -s "$room/counts" ]; then
	read -r good bad left <"$room/counts"
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$left
else
	bad=0
fi
# nothing collected, or an end before the count: not a success
if [ "$status" != 0 ] && [ "$bad" = 0 ]; then
	failed=$((failed + 1))
fi
finish
