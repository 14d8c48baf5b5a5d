#!/bin/sh
#
# Lines and branches reached by the tests: sh test/coverage.sh [--build-dir DIR] [PYTEST ARGUMENT...]
#
# Builds with gcc's --coverage, without optimisation and sanitizers, runs the unit tests, then those on the wire and with a real
# PostgreSQL (or what the arguments select), and prints for each room the lines and branches that were executed, and the
# files with the most unexecuted lines. With --build-dir, DIR/lines lists every line that was not reached. As root, or with sudo for the
# packages. Takes as long as one pass of test/run.sh: a quarter of an hour on two cores.
#
# test/wire/test_memory_runs_out.py reaches branches for failed allocations, at full size (PGWEIR_ROUNDS=full) all of them.
# A process that ends by SIGKILL writes no figures.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

take_option() {
	taken=0
}
. "$top/test/options.sh"

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libsystemd-dev libpam0g-dev libldap-dev strace postgresql openssl python3-venv ca-certificates php-cli php-pgsql libdbd-pg-perl slapd dnsmasq-base
postgres_find
setup_room
setup_builds

say "Building with --coverage, unit tests"
rm -rf "$builds/source" "$builds/coverage"
(
	room=$builds
	setup_copy source
)
as_account mkdir -p "$builds/coverage" "$room/tmp"
as_account sh -c 'cd "$1/source" && autoreconf -fi && cd ../coverage && ../source/configure -q CC=gcc --disable-lto --disable-hardening \
	CPPFLAGS=-DPGWEIR_TEST_BUILD CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage' sh "$builds" >"$room/build.log" 2>&1 ||
	fail "the build failed" "$(tail -n 20 "$room/build.log")"
as_account make -s -k -C "$builds/coverage" -j"$(nproc)" all check >"$room/check.log" 2>&1 || tail -n 40 "$room/check.log"

say "Scenes on the wire, and with a real PostgreSQL"
as_account python3 -m venv "$builds/venv"
as_account "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir -r "$builds/source/test/requirements.txt"
[ $# -gt 0 ] || set -- wire live
as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$builds/source/test" \
	env TMPDIR="$room/tmp" PGWEIR="$builds/coverage/pgweir" PYTHONDONTWRITEBYTECODE=1 \
	"$builds/venv/bin/python" -m pytest -q --tb=line -n 3 "$@" || say "Not all of them passed: what follows is true all the same"

say "What was executed"
as_account mkdir -p "$room/gcov"
as_account sh -c 'cd "$1" && find "$2" -name "*.gcda" ! -path "*/test/*" ! -path "*/doc/*" -print0 | xargs -0 gcov -b -i >/dev/null 2>&1' sh \
	"$room/gcov" "$builds/coverage"
as_account python3 "$builds/source/test/support/coverage.py" "$room/gcov" "$builds/lines"
