#!/bin/sh
#
# Shows pgweir at work: builds it, puts it in front of a PostgreSQL, listens on 127.0.0.1:6432, sends pgbench through,
# shows the pools, and stays up until Ctrl-C.
#
#	sh etc/quickstart.sh [--once] [--listen PORT] [--page PORT] [--host HOST] [--port PORT] [--dbname NAME] [--user NAME]
#
#	--once		end after pgbench
#	--listen PORT	listen there instead of on 6432
#	--page PORT	serve the live page there instead of on 8432
#	--host, --port, --dbname, --user
#			an existing PostgreSQL (any of them: the rest are localhost, 5432, the user, and you); its password is
#			taken from PGPASSWORD, or asked for. Nothing is written there.
#
# Without an existing one it makes a PostgreSQL of its own, with passwords; its data is removed at the end. As root,
# or as a user with sudo for the packages; the servers run as an account without privileges.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

once=no listen=6432 page=8432 existing=no
host=localhost port=5432 dbname='' user=''
while [ $# -gt 0 ]; do
	case $1 in
	--listen=* | --page=* | --host=* | --port=* | --dbname=* | --user=*)
		option=${1%%=*} value=${1#*=}
		;;
	--listen | --page | --host | --port | --dbname | --user)
		[ $# -gt 1 ] || fail "$1 wants a value" "sh etc/quickstart.sh --help"
		option=$1 value=$2
		shift
		;;
	--once)
		once=yes
		shift
		continue
		;;
	-h | --help)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*) fail "\"$1\" is no option of the quickstart" "sh etc/quickstart.sh --help" ;;
	esac
	shift
	case $option in
	--listen) listen=$value ;;
	--page) page=$value ;;
	--page) page=$value ;;
	--host) host=$value existing=yes ;;
	--port) port=$value existing=yes ;;
	--dbname) dbname=$value existing=yes ;;
	--user) user=$value existing=yes ;;
	esac
done

# ---- PostgreSQL

# Sets user, dbname, password; the programs of PostgreSQL see the password in PGPASSWORD.
use_existing() {
	user=${user:-${PGUSER:-$(id -un)}}
	dbname=${dbname:-${PGDATABASE:-$user}}
	say "The PostgreSQL at $host:$port, database $dbname, user $user"
	if [ -z "${PGPASSWORD:-}" ] && [ -t 0 ]; then
		printf 'Password of %s (empty if it needs none): ' "$user"
		at_exit "stty echo"
		stty -echo
		IFS= read -r PGPASSWORD || :
		stty echo
		echo
	fi
	PGPASSWORD=${PGPASSWORD:-}
	export PGPASSWORD
	as_account psql -w -X -q -h "$host" -p "$port" -U "$user" -d "$dbname" -c 'SELECT 1' >"$room/psql.log" 2>&1 || {
		cat "$room/psql.log" >&2
		fail "psql cannot log in there" \
			"check --host, --port, --dbname and --user, and set PGPASSWORD to the password of $user"
	}
}

make_own() {
	say "A private PostgreSQL"
	host=127.0.0.1 port=$(free_port) dbname=app user=app
	postgres_start "$room/data" "$port"
	PGPASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
	export PGPASSWORD
	PGPASSWORD=$postgres_password as_account psql -X -q -v ON_ERROR_STOP=1 -h "$host" -p "$port" -U postgres \
		-c "CREATE ROLE app LOGIN PASSWORD '$PGPASSWORD'" -c 'CREATE DATABASE app OWNER app' postgres ||
		fail "the private PostgreSQL takes no commands" "read the lines above"
}

# ---- pgweir

write_configuration() {
	auth_type=scram-sha-256
	if [ -z "$PGPASSWORD" ]; then
		say "$user needs no password there, so no client that reaches 127.0.0.1:$listen is asked for one"
		auth_type=trust
	fi
	as_account sh -c 'umask 077; cat > "$1"' sh "$room/userlist.txt" <<-USERS
		"$(double "$user")" "$(double "$PGPASSWORD")"
	USERS
	as_account sh -c 'cat > "$1"' sh "$room/pgweir.ini" <<-INI
		[databases]
		* = host=$host port=$port

		[pgweir]
		listen_addr = 127.0.0.1
		listen_port = $listen
		http_listen_port = $page
		unix_socket_dir = $room
		auth_type = $auth_type
		auth_file = $room/userlist.txt
		admin_users = $user
		pool_mode = transaction
		default_pool_size = 5
		logfile = $room/pgweir.log
		pidfile = $room/pgweir.pid
	INI
}

# "" stands for one quote in the user list.
double() {
	printf '%s' "$1" | sed 's/"/""/g'
}

# As it has to be written in a connection URI.
uri() {
	case $1 in
	*[!A-Za-z0-9._~-]*) printf '%s' "$1" | od -An -v -tx1 | tr -d '\n' | tr ' ' '%' ;;
	*) printf '%s' "$1" ;;
	esac
}

start_pgweir() {
	as_account "$build/pgweir" --check "$room/pgweir.ini" || fail "pgweir finds fault with its configuration" "read the lines above"
	at_exit stop_pgweir
	# returns when it is listening, or with its own complaint on the terminal
	as_account "$build/pgweir" -d "$room/pgweir.ini" >"$room/start.log" 2>&1 || {
		cat "$room/start.log" >&2
		fail "pgweir did not start" \
			"if port $listen is taken (ss -ltnp shows by whom), choose another: sh etc/quickstart.sh --listen PORT"
	}
	pid=$(cat "$room/pgweir.pid")
}

stop_pgweir() {
	if [ -s "$room/pgweir.pid" ]; then
		pid=$(cat "$room/pgweir.pid")
		kill -QUIT "$pid" 2>/dev/null || :
		timeout 10 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || :
	fi
}

# through DATABASE PROGRAM ARGUMENTS...: with pgweir as the server
through() {
	database=$1
	shift
	as_account env PAGER=cat PGHOST=127.0.0.1 PGPORT="$listen" PGUSER="$user" PGDATABASE="$database" "$@"
}

bench() {
	if [ "$existing" = yes ]; then
		as_account sh -c 'echo "SELECT 1;" > "$1"' sh "$room/one.sql"
		set -- -n -f "$room/one.sql"
	else
		through "$dbname" "$pgbin/pgbench" -i -q -s 5 >"$room/bench.log" 2>&1 || {
			tail -n 10 "$room/bench.log" "$room/pgweir.log" >&2
			fail "pgbench could not make its tables through pgweir" "read the lines above"
		}
		set --
	fi
	say "pgbench: 50 clients for 5 seconds, on a pool of 5 server connections"
	through "$dbname" "$pgbin/pgbench" "$@" -c 50 -j 2 -T 5 "$dbname" 2>&1 || {
		tail -n 10 "$room/pgweir.log" >&2
		fail "pgbench did not get through" "the lines above are the end of pgweir's log"
	}
}

# ---- All of it

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql
setup_room
postgres_find
PATH=$pgbin:$PATH
# check the requirements of the later steps before the build, which takes time
if port_is_taken "$listen"; then
	fail "port $listen is taken (ss -ltnp shows by whom)" "choose another: sh etc/quickstart.sh --listen PORT"
fi
if [ "$existing" = yes ]; then
	use_existing
else
	make_own
fi
say "Building pgweir"
setup_build build --disable-lto
write_configuration
say "Starting pgweir on 127.0.0.1:$listen"
start_pgweir
bench
say "SHOW POOLS on its console"
through pgweir psql -X -c 'SHOW POOLS' || fail "the console did not answer" "read the lines above"

if [ "$once" = yes ]; then
	say "It works. The next command runs it again and leaves it up, to be tried out:"
	echo "sh etc/quickstart.sh"
	exit 0
fi
say "It works. Up until Ctrl-C; log: $room/pgweir.log; console: the same command with database pgweir."
say "Live page: http://127.0.0.1:$page/"
say "Type next, in another terminal:"
echo "psql 'postgresql://$(uri "$user")${PGPASSWORD:+:$(uri "$PGPASSWORD")}@127.0.0.1:$listen/$(uri "$dbname")'"
# in the background, because a shell hears of a signal only while it waits, not while a program runs
tail --pid="$pid" -f /dev/null &
wait $!
fail "pgweir has ended by itself" "look at the end of its log: $(tail -n 1 "$room/pgweir.log")"
