#!/bin/sh
#
# Measures what a query costs in pgweir, beside Debian's PgBouncer and beside a program that forwards the same bytes and
# looks at none. Needs two CPUs, with nothing else going on. doc/performance.md says how to read the tables.
#
#	sh test/bench/bench.sh [OPTION...]
#
#	--quick			fewer and shorter turns, in less than two minutes
#	--turns N		so many turns for each row (9)
#	--seconds N		length of each measurement (1)
#	--tables LIST		goals,fairness,growth: which of them
#	--rows WORD,...		of the goals those with one of these words in the title
#
# pgweir is built anew with optimisation, in a directory of its own that is gone at the end.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/etc/setup.sh"

case ${1:-} in
-h | --help)
	sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
	exit 0
	;;
esac

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES pgbouncer openssl python3 strace util-linux valgrind
setup_room
say "Building pgweir"
setup_build build
build_step make -s bench-programs
as_account mkdir "$room/bench"
say "Measuring $(git -C "$top" describe --always --dirty --exclude='*' 2>/dev/null || echo 'no commit')"
as_account env PYTHONPATH="$build/test" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$build/test/bench/bench.py" \
	--build "$build" --room "$room/bench" "$@"
