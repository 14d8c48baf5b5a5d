#!/bin/sh
#
# Disturbances under load, with an audit of the data: sh test/chaos.sh [OPTION...]
#
#	--minutes N	duration of the disturbances (1)
#	--seed S	of all random choices (default: random; the first and the last line print it)
#	--kinds LIST	kinds of disturbances: terminate,kill9,fast,immediate,reload,pause,suspend,reconnect,kill,kill_client,look,
#			replace,vanish,cancel (all)
#	--nodes		three servers whose roles change: see below
#	--auto		with --nodes: reads = auto instead of transaction
#	--service	with --nodes: pgweir has the addresses of two services, which follow the roles, instead of those of the servers
#	--headless	with --nodes: pgweir has one name with the addresses of all servers
#	--stale		with --nodes: read_your_writes = off, and the verdict HELD only if reads were stale
#	--fast		the binary as it is installed, instead of one with sanitizers
#	--build-dir DIR	build there and keep it: the next run with it compiles only what changed
#
# Two dozen clients (psycopg2, psycopg with prepared statements and in pipeline mode, asyncpg, and the protocol by hand) move money
# through pgweir in transaction mode with five servers, while backends of PostgreSQL are terminated and killed, the server restarts,
# pgweir reloads changed settings, pauses, suspends and is replaced by a new process (-R), clients are killed, disconnect at any byte, and
# cancel running and completed queries. Then the tables are read from PostgreSQL directly: each acknowledged commit is present once, each
# commit without an acknowledgement at most once, the sums are correct, and no client has read a row of another client. pgweir has not
# crashed, no client hangs, the figures of SHOW are correct, and each error that a client received is allowed for these kinds of
# disturbances: reload, pause, suspend, reconnect, look, replace and vanish allow no errors.
#
# With --nodes there are a primary and two standbys, and the kinds are switch, crash, hang (of the primary; a standby takes over), freeze and delay (of
# replay). Readers compare the answers of standbys with a model: no read is older than read_your_writes allows.
#
# The seed determines the disturbances, but not their time. With PGWEIR_KEEP=1 logs and data of a failed run are kept.
# The last line is the verdict with its figures: HELD, with status 0, or BROKEN and why.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

builds=
binary=gcc
minutes=1
seed=
kinds=
nodes=
auto=
by=
stale=
while [ $# -gt 0 ]; do
	case $1 in
	--fast)
		binary=fast
		shift
		continue
		;;
	--nodes)
		nodes=--nodes
		shift
		continue
		;;
	--auto)
		auto=--auto
		shift
		continue
		;;
	--service | --headless)
		by=$1
		shift
		continue
		;;
	--stale)
		stale=--stale
		shift
		continue
		;;
	--help | -h)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	esac
	[ $# -gt 1 ] || fail "what is $1? Try --help"
	case $1 in
	--minutes) minutes=$2 ;;
	--seed) seed=$2 ;;
	--kinds) kinds=$2 ;;
	--build-dir) builds=$2 ;;
	*) fail "what is $1? Try --help" ;;
	esac
	shift 2
done

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql openssl python3-venv ca-certificates
postgres_find
setup_room
setup_builds

# WHAT COMMAND...: runs the command as the account; on failure prints its output, and ends.
step() {
	what=$1
	shift
	as_account "$@" >"$room/step.log" 2>&1 || {
		tail -n 30 "$room/step.log" >&2
		fail "$what"
	}
}

say "Building pgweir"
rm -rf "$builds/source"
(
	room=$builds
	setup_copy source
)
step "autoreconf" sh -c 'cd "$1" && autoreconf -fi' sh "$builds/source"
as_account mkdir -p "$builds/$binary"
if [ ! -e "$builds/$binary/config.status" ]; then
	[ "$binary" = gcc ] && option=--enable-sanitizers || option=CFLAGS=-O2
	step "configure" sh -c 'cd "$1" && exec ../source/configure -q CC=gcc "$2"' sh "$builds/$binary" "$option"
fi
step "make" make -s -C "$builds/$binary" -j"$(nproc)" pgweir
if ! as_account cmp -s "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"; then
	say "Installing what Python needs into a virtual environment"
	step "python3 -m venv" /usr/bin/python3 -m venv --clear "$builds/venv"
	step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir -r "$builds/source/test/requirements.txt"
	as_account cp "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"
fi

directory=$room/tmp
[ -z "${PGWEIR_KEEP:-}" ] || directory=${TMPDIR:-/tmp}
as_account mkdir -p "$directory"
as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$builds/source/test" \
	env TMPDIR="$directory" PGWEIR="$builds/$binary/pgweir" PYTHONDONTWRITEBYTECODE=1 "$builds/venv/bin/python" chaos.py \
	--minutes "$minutes" $nodes $auto $by $stale ${seed:+--seed "$seed"} ${kinds:+--kinds "$kinds"}
