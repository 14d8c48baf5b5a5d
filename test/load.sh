#!/bin/sh
#
# Many clients, clients that are a burden, and their effect on other clients: sh test/load.sh [CASE...]
#
#	crowd		19,000 clients on one process, 1,000 of them at work
#	crowds		50,000 on three processes at one port (so_reuseport), 1,000 of them at work
#	storm		20,000 logins with SCRAM, 500 at a time
#	slow		1,000 clients that read a large result slowly
#	silent		100 clients that ask for a large result and never read it
#	dribble		1,000 clients that send one byte a second
#	budget		50 databases with clients that always wait, on 20 servers of a real PostgreSQL (max_host_connections)
#	page		an open page of the HTTP endpoint, 1,000 pools and 10,000 clients: processor time for its requests
#	copy		10 GB by COPY in each direction, between psql and a real PostgreSQL
#
#	lookups		an attack: one address fills the server with clients that wait for look-ups in a database that hangs
#	verifiers	the same, with wrong passwords, for which keys are derived
#	salts		a server that requests SCRAM with another salt each time, and the maximum number of iterations
#	names		invented database names, each of which causes a look-up
#	takeover	connections to the socket for online restarts
#	handshakes	TLS handshakes without a login
#	notify		notifications for many listeners, in another database
#	sets		texts full of the word SET, in another database
#	functions	temporary functions that are replaced in a loop, in another database
#
# During each case, 16 ordinary clients run queries. Memory must stay below its bound and be freed afterwards, nothing may be lost, and
# every count must be correct; durations are only printed, except for the attacks: there the p99 of clients of another address, measured
# alternately with and without the attack, must stay within a bound. doc/performance.md has the figures and the bounds.
# Needs 20,000 open files (ulimit -Hn), two CPUs, about nine minutes, and 2 GB of memory, most of it for the kernel's socket buffers.
# pgweir is built with optimisation in a temporary directory, which is removed at the end. The status is 0 only if all cases succeeded.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

case ${1:-} in
-h | --help)
	sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
	exit 0
	;;
esac

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES chromium postgresql openssl python3 util-linux
postgres_find
setup_room
say "Building pgweir"
setup_build build
build_step make -s bench-programs
as_account mkdir "$room/load"
port=$(free_port)
postgres_start "$room/postgres" "$port" -c max_connections=400
# attackers that are connected directly, for comparison
as_account sh -c 'echo "host attacked attacker 127.0.0.2/32 trust" | cat - "$1" >"$1.new" && mv "$1.new" "$1"' sh "$room/postgres/pg_hba.conf"
as_account "$pgbin/pg_ctl" -D "$room/postgres" reload >/dev/null
as_account env PGPASSWORD="$postgres_password" "$pgbin/psql" -qX -h 127.0.0.1 -p "$port" -U postgres \
	-c 'CREATE ROLE attacker SUPERUSER LOGIN' -c 'CREATE DATABASE attacked' postgres
say "Loading $(git -C "$top" describe --always --dirty --exclude='*' 2>/dev/null || echo 'no commit')"
as_account env PYTHONPATH="$build/test" PYTHONDONTWRITEBYTECODE=1 PGWEIR_LOAD_PASSWORD="$postgres_password" \
	/usr/bin/python3 "$build/test/bench/load.py" --build "$build" --room "$room/load" --psql "$pgbin/psql" --postgres "$port" "$@"
