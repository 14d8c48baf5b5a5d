#!/bin/sh
#
# PostgreSQL's own regression suite, unchanged, through pgweir: directly first; then in session mode with server
# connections that are reused, and with each connection used once (server_lifetime = 0); then in transaction mode with
# session_state = full, where clients move from server to server (server_round_robin). Prints the number of passed tests for each.
#
#	sh test/regress.sh [--mode session|transaction | --oracle] [--cache DIR]
#
#	--mode MODE	directly and in this mode only
#	--oracle	transaction mode with the pgweir that asks each server for its state (test/oracle/oracle.c)
#	--cache DIR	directory in which PostgreSQL's source and build are kept for the next run
#			(~/.cache/pgweir; as root /var/cache/pgweir)
#
# The source is the package postgresql-15, built completely, so that suite and server have the same version. The tests guc,
# temp and stats need an unused server connection, so they may fail where connections are reused. In transaction mode
# triggers may fail as well, because C functions keep their own values in the session.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"
. "$top/test/postgres_source.sh"

may_fail_when_reused="guc temp stats"
may_fail_in_transactions="$may_fail_when_reused triggers"
modes="session transaction"
oracle=no
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/pgweir
[ "$(id -u)" != 0 ] || cache=/var/cache/pgweir
while [ $# -gt 0 ]; do
	case $1 in
	--cache)
		[ $# -gt 1 ] || fail "--cache wants a directory" "sh $0 --help"
		cache=$2
		shift 2
		;;
	--mode)
		case ${2-} in
		session | transaction) modes=$2 ;;
		*) fail "--mode wants session or transaction" "sh $0 --help" ;;
		esac
		shift 2
		;;
	--oracle)
		modes=transaction oracle=yes
		shift
		;;
	-h | --help)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*) fail "\"$1\" is no option" "sh $0 --help" ;;
	esac
done

# ---- PostgreSQL's source, built

in_source() { # COMMAND...: talks only when it fails
	as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$cache/postgresql" "$@" >"$room/build.log" 2>&1 || {
		tail -n 30 "$room/build.log" >&2
		fail "PostgreSQL's build failed at: $*" "read the lines above; to begin anew, remove $cache"
	}
}

build_postgresql() {
	[ -e "$cache/postgresql/configure" ] || fetch_postgres "$cache/postgresql"
	say "Building PostgreSQL in $cache (once)"
	in_source ./configure -q --prefix="$cache/installed" --without-readline --without-zlib --without-icu
	in_source make -s -j"$(nproc)"
	in_source make -s -j"$(nproc)" -C src/test/regress
	in_source make -s install
	as_account touch "$cache/installed/complete"
}

# ---- One run of the suite

fresh_cluster() {
	postgres_stop
	as_account rm -rf "$room/data"
	as_account "$pgbin/initdb" -D "$room/data" -U postgres -A trust --no-locale --no-sync >"$room/initdb.log" 2>&1
	as_account sh -c 'cat >> "$1"' sh "$room/data/postgresql.conf" <<-CONF
		port = $pgport
		listen_addresses = '127.0.0.1'
		unix_socket_directories = '$room'
		fsync = off
		max_connections = 300
		max_prepared_transactions = 2
	CONF
	as_account "$pgbin/pg_ctl" -D "$room/data" -l "$room/postgres.log" -w start >/dev/null
	# as pg_regress would make it, had it not been told to use an existing one
	as_account "$pgbin/psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$pgport" -U postgres postgres <<-SQL
		CREATE DATABASE regression TEMPLATE template0;
		ALTER DATABASE regression SET lc_messages TO 'C';
		ALTER DATABASE regression SET lc_monetary TO 'C';
		ALTER DATABASE regression SET lc_numeric TO 'C';
		ALTER DATABASE regression SET lc_time TO 'C';
		ALTER DATABASE regression SET bytea_output TO 'hex';
		ALTER DATABASE regression SET timezone_abbreviations TO 'Default';
	SQL
}

pgweir_start() { # SETTING...
	as_account sh -c 'cat > "$1"' sh "$room/pgweir.ini" <<-INI
		[databases]
		* = host=127.0.0.1 port=$pgport
		[pgweir]
		listen_addr = 127.0.0.1
		listen_port = $port
		unix_socket_dir =
		auth_type = trust
		auth_file = $room/userlist.txt
		logfile = $room/pgweir.log
		pidfile = $room/pgweir.pid
		default_pool_size = 60
		max_client_conn = 200
		$(printf '%s\n' "$@")
	INI
	as_account "$build/$program" -d -q "$room/pgweir.ini" || {
		tail -n 10 "$room/pgweir.log" >&2
		fail "pgweir did not start" "read the lines above"
	}
}

pgweir_stop() {
	if [ -s "$room/pgweir.pid" ]; then
		pid=$(cat "$room/pgweir.pid")
		kill -QUIT "$pid" 2>/dev/null || :
		timeout 10 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || :
	fi
}

# NAME PORT ALLOWED-TO-FAIL
suite() {
	log=$room/$1.log
	as_account make -s -C "$cache/postgresql/src/test/regress" installcheck-parallel \
		EXTRA_REGRESS_OPTS="--use-existing --dbname=regression --host=127.0.0.1 --port=$2 --user=postgres" \
		>"$log" 2>&1 || :
	failed=$(sed -n 's/^\(test\)\{0,1\} *\([a-z0-9_]*\) *\.\.\. FAILED.*/\2/p' "$log" | tr '\n' ' ')
	total=$(sed -n -e 's/^ All \([0-9]*\) tests passed.*/\1/p' -e 's/^ [0-9]* of \([0-9]*\) tests failed.*/\1/p' "$log")
	if [ -z "$total" ]; then
		tail -n 20 "$log"
		echo "$1: the suite did not run to its end"
		status=1
		return
	fi
	# shellcheck disable=SC2086
	set -- "$1" "$3" $failed
	name=$1 allowed=$2
	shift 2
	echo "$name: $((total - $#)) of $total${failed:+, failed: $failed}"
	for test in "$@"; do
		case " $allowed " in
		*" $test "*) ;;
		*) status=1 ;;
		esac
	done
	if [ $# -gt 0 ]; then
		as_account cp "$cache/postgresql/src/test/regress/regression.diffs" "$cache/$name.diffs"
		echo "  differences: $cache/$name.diffs"
	fi
}

# ---- All of it

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES bzip2 xz-utils perl
setup_room
mkdir -p "$cache"
[ "$(id -u)" != 0 ] || chown "$account:" "$cache"
[ -e "$cache/installed/complete" ] || build_postgresql
pgbin=$cache/installed/bin
say "Building pgweir"
program=pgweir
if [ "$oracle" = no ]; then
	setup_build build
else
	setup_build build --enable-sanitizers
	program=test/oracle/pgweir
	build_step make "$program"
fi
as_account sh -c 'echo "\"postgres\" \"\"" > "$1"' sh "$room/userlist.txt"
pgdata=$room/data
pgport=$(free_port)
port=$((pgport + 1))
at_exit postgres_stop
at_exit pgweir_stop
status=0

fresh_cluster
suite direct "$pgport" ""

# NAME ALLOWED-TO-FAIL SETTING...
through_pgweir() {
	name=$1 allowed=$2
	shift 2
	fresh_cluster
	pgweir_start "$@"
	suite "$name" "$port" "$allowed"
	pgweir_stop
	if [ "$oracle" = yes ]; then
		sed -n 's/.* oracle has asked /oracle: questions at least /p' "$room/pgweir.log" | tail -n 1
		! grep "oracle: " "$room/pgweir.log" || status=1
	fi
}

case $modes in *session*)
	through_pgweir pgweir-reused "$may_fail_when_reused" "pool_mode = session"
	through_pgweir pgweir-used-once "" "pool_mode = session" "server_lifetime = 0"
	;;
esac
case $modes in *transaction*)
	through_pgweir pgweir-transaction "$may_fail_in_transactions" "pool_mode = transaction" "session_state = full" "server_round_robin = 1"
	;;
esac
exit "$status"
