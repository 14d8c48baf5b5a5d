#!/bin/sh
#
# Reads on several servers, through pgweir (reads = transaction) and Pgpool-II: sh test/bench/balance.sh [OPTION...]
#
#	--table LIST	throughput	on a primary and two standbys, compared with one server
#			standby		pgbench -S on a primary of weight 1 and a standby of weight 3, which is stopped and started again
#	--turns N	of the table throughput (3): in a turn each way is measured once, and medians are printed
#	--seconds N	of each measurement (5)
#	--clients N	of the table throughput (48)
#
# The table throughput wants the servers to be the limit, although they share two CPUs with everything else. A query calls a function that takes an
# advisory lock of its server, sleeps for 5 ms and reads a row. However many connections a server has, it answers 200 queries a second at most, for a
# few percent of a CPU. Three servers answer 600, if each of them always has a query that waits for the lock.
#
# The clients are readers by ALTER ROLE ... SET default_transaction_read_only = on. Shares are counted by pg_stat_statements on each server. Pgpool-II
# 4.3 of Debian 12 chooses a server for each statement, and takes a server back by auto_failback. A client with an error connects again.
#
# A way that this pgweir does not know is skipped, with a line below the table. All is removed at the end; three minutes. $PGWEIR names a program to be
# used instead of a new one.
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
setup_packages $BUILD_PACKAGES postgresql pgpool2 python3-psycopg2 util-linux
setup_room
setup_copy source
pgweir=${PGWEIR:-}
if [ -z "$pgweir" ]; then
	say "Building pgweir"
	setup_build build
	pgweir=$build/pgweir
fi
as_account mkdir "$room/bench"
say "Measuring $(git -C "$top" describe --always --dirty --exclude='*' 2>/dev/null || echo 'no commit')"
as_account env PYTHONPATH="$room/source/test" PYTHONDONTWRITEBYTECODE=1 TMPDIR="$room/bench" /usr/bin/python3 "$room/source/test/bench/balance.py" \
	--pgweir "$pgweir" --room "$room/bench" "$@"
