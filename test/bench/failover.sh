#!/bin/sh
#
# Effects of a failover on clients, by the way in which they are connected: sh test/bench/failover.sh [OPTION...]
#
#	--way LIST	direct		libpq: several hosts and target_session_attrs=read-write
#			pgbouncer	PgBouncer of Debian 13 in front of HAProxy, server_login_retry = 1
#			haproxy		HAProxy, which asks Patroni for /primary every 0.5 s; without Patroni it asks the servers for their role
#			pgweir		pgweir with the list of hosts, target_session_attrs=primary
#			pgweir-patroni	pgweir with Patroni's addresses only
#	--event LIST	switchover	planned, by Patroni
#			postgres	kill -9 of all processes of the primary's PostgreSQL
#			machine		the same, and of its Patroni
#			promote		three servers without Patroni: the primary is stopped, and a standby is promoted at once
#	--turns N	events of each kind for each way (1); errors are added up, times are medians
#	--clients N	clients of each kind (8)
#	--detail	a second table, by kind of client, with the texts of the errors
#	--quick		the events switchover and promote only
#
# Each way has all kinds of clients at once: pgbench -M simple, extended, prepared (an UPDATE and a SELECT outside a transaction, every 40 ms), the
# same loop with psycopg, and pgbench with BEGIN and COMMIT. A client with an error connects again, as soon as a connection is possible.
#
# A cell: statements with an error outside + within transactions / the longest time of a client between two answers / the time without a primary,
# found by asking each server every 10 ms / the difference / acknowledged writes that the new primary does not have, or has twice. The servers
# replicate asynchronously: after kill -9, the last milliseconds of the old primary may be lost in any way. ">": a client still waited at the end.
#
# A way that this pgweir does not know is skipped, with a line below the table. Times are for an idle machine: look at the load average. All is
# removed at the end; ten minutes. $PGWEIR and $PGWEIR_PGBOUNCER name programs to be used instead of new ones.
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
setup_packages $BUILD_PACKAGES postgresql patroni etcd-server haproxy python3-psycopg2 python3-psycopg util-linux
setup_room
setup_copy source
pgweir=${PGWEIR:-} pgbouncer=${PGWEIR_PGBOUNCER:-}
if [ -z "$pgweir" ]; then
	say "Building pgweir"
	setup_build build
	pgweir=$build/pgweir
fi
if [ -z "$pgbouncer" ]; then
	say "Unpacking PgBouncer"
	as_account sh "$room/source/test/pgbouncer.sh" "$room/pgbouncer" >"$room/pgbouncer.log" 2>&1 || {
		tail -n 5 "$room/pgbouncer.log" >&2
		fail "PgBouncer could not be unpacked" "read the lines above"
	}
	pgbouncer=$room/pgbouncer/pgbouncer
fi
as_account mkdir "$room/bench"
say "Measuring $(git -C "$top" describe --always --dirty --exclude='*' 2>/dev/null || echo 'no commit')"
as_account env PYTHONPATH="$room/source/test" PYTHONDONTWRITEBYTECODE=1 TMPDIR="$room/bench" /usr/bin/python3 "$room/source/test/bench/failover.py" \
	--pgweir "$pgweir" --pgbouncer "$pgbouncer" --room "$room/bench" "$@"
