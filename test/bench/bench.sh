#!/bin/sh
#
# Measures the cost of a query in pgweir, beside Debian's PgBouncer and beside a program that forwards the same bytes
# without reading them. Needs two idle CPUs. doc/performance.md explains the tables.
#
#	sh test/bench/bench.sh [OPTION...]
#
#	--quick			fewer and shorter turns, in less than two minutes
#	--turns N		number of turns for each row (9)
#	--seconds N		length of each measurement (1)
#	--tables LIST		some of goals,session_state,fairness,growth
#	--rows WORD,...		only rows of the goals with one of these words in the title
#
# pgweir is built with optimisation in a temporary directory, which is removed at the end.
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
