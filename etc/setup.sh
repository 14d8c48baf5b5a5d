# shellcheck shell=sh
#
# What quickstart.sh and the scripts in test/ share: packages, an account without privileges, a room of its own to work
# in, the build, a private PostgreSQL. Sourced, not run; the caller has set `top` to the top of the source tree.
#
# The source tree is only read. What is built or run lives in the room, a temporary directory that is gone at the end:
# so it doesn't matter which user owns the tree, whether others may read it, or what an earlier build left there.
#
#	say TEXT...			a line about what is going on
#	fail TEXT [WHAT TO DO]		ends the script with status 1
#	at_exit COMMAND			runs at the end, however it comes, last named first
#	setup_packages NAME...		installs what is missing of these
#	setup_room			sets `room`, and `account`: its owner
#	setup_builds			makes $builds, where builds are kept, and gives it to the account; the room where none is named
#	as_account COMMAND...		runs it as that account, with no root privileges
#	setup_build NAME [OPTION...]	builds the tree with these configure options in $room/NAME
#	postgres_find			sets `pgbin`, where PostgreSQL's programs are
#	postgres_start DIR PORT		a private server with user postgres and a password, stopped and removed at the end
#	port_is_taken PORT		whether a process listens there
#	free_port			prints a TCP port that no process listens on

say() {
	printf '%s\n' "== $*"
}

fail() {
	printf '\n%s\n' "FAILED: $1" >&2
	if [ $# -gt 1 ]; then
		printf '%s\n' "What to do: $2" >&2
	fi
	exit 1
}

exit_steps=:
run_exit_steps() {
	trap '' INT TERM HUP
	trap - EXIT
	eval "$exit_steps"
}
at_exit() {
	exit_steps="$1; $exit_steps"
}
trap run_exit_steps EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- Packages

BUILD_PACKAGES="gcc make autoconf automake pkg-config libc6-dev libevent-dev libssl-dev libc-ares-dev libidn-dev libjansson-dev uthash-dev"

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

packages_missing() {
	for package in "$@"; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' || printf '%s ' "$package"
	done
}

# Prints what holds the lock that apt-get has met, such as 4711 (apt-get), or status 1 if it has failed for another reason.
apt_lock_holder() {
	grep -q 'E: Could not get lock' "$apt_log" || return 1
	sed -n 's/.*E: Could not get lock .*held by process \([0-9]* ([^)]*)\).*/\1/p' "$apt_log" | head -n 1
}

# TEXT WHAT-TO-DO: the end after apt-get has failed with what is in $apt_log. A lock is neither the network's fault nor the list's.
apt_failed() {
	tail -n 15 "$apt_log" >&2
	if holder=$(apt_lock_holder); then
		fail "another process holds the package lock: ${holder:-apt, dpkg or unattended-upgrades}" "wait for its end, then try again"
	fi
	fail "$1" "$2"
}

# apt-get waits for the locks of dpkg, but not for those of the lists: so this waits for five minutes.
apt_update() {
	tries=300
	until as_root env LC_ALL=C apt-get -q update </dev/null >"$apt_log" 2>&1; do
		[ "$tries" != 0 ] && holder=$(apt_lock_holder) || apt_failed "apt-get update failed" "check the network and /etc/apt/sources.list"
		[ "$tries" != 300 ] || say "Waiting for the package lock of ${holder:-another process}"
		tries=$((tries - 1))
		sleep 1
	done
}

apt_install() {
	as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Options::=--force-confold install --no-install-recommends "$@" </dev/null >"$apt_log" 2>&1 || {
		apt_failed "apt-get could not install: $*" "see the lines above; when the network is fine, try: apt-get update"
	}
}

# Debian starts each server it installs, and creates a database cluster with PostgreSQL. Here the servers are wanted for
# their programs only, so both are held off until the packages are in place.
hold_services() {
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		at_exit "as_root rm -f /usr/sbin/policy-rc.d"
		printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
		as_root chmod 755 /usr/sbin/policy-rc.d
		release_services() { as_root rm -f /usr/sbin/policy-rc.d; }
	else
		release_services() { :; }
	fi
}

hold_cluster() {
	cluster_conf=/etc/postgresql-common/createcluster.conf
	[ -z "$(packages_missing postgresql-common)" ] || apt_install postgresql-common
	as_root cp -p "$cluster_conf" "$cluster_conf.before"
	at_exit "release_cluster"
	echo 'create_main_cluster = false' | as_root tee -a "$cluster_conf" >/dev/null
}
release_cluster() {
	if [ -e "$cluster_conf.before" ]; then
		as_root mv "$cluster_conf.before" "$cluster_conf"
	fi
}

setup_packages() {
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		say "No apt-get here: these have to be there already, by whatever name they have: $*"
		return
	fi
	missing=$(packages_missing "$@")
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		fail "these packages are missing: $missing" "as root: apt-get install $missing"
	fi
	say "Installing $missing"
	apt_log=$(mktemp)
	at_exit "rm -f $apt_log"
	apt_update
	hold_services
	case " $missing" in
	*" postgresql"*)
		hold_cluster
		# shellcheck disable=SC2086
		apt_install $missing
		release_cluster
		;;
	*)
		# shellcheck disable=SC2086
		apt_install $missing
		;;
	esac
	release_services
}

# ---- A place to work in

setup_room() {
	# PostgreSQL refuses to run as root, and nothing that is tested here should need it.
	account=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		account=nobody
		if id postgres >/dev/null 2>&1; then
			account=postgres
		fi
	fi
	room=$(mktemp -d "${TMPDIR:-/tmp}/pgweir.XXXXXX") || fail "no temporary directory" "set TMPDIR to a place with room"
	at_exit "rm -rf '$room'"
	chmod 755 "$room"
	if [ "$(id -u)" = 0 ]; then
		chown "$account:" "$room"
	fi
}

# setpriv replaces itself with the command: a background command has the process ID that the shell knows.
setup_builds() {
	if [ -z "$builds" ]; then
		builds=$room
		return
	fi
	mkdir -p "$builds"
	builds=$(cd "$builds" && pwd)
	[ "$(id -u)" != 0 ] || chown "$account:" "$builds"
}

as_account() {
	if [ "$(id -u)" = 0 ]; then
		(cd "$room" && exec setpriv --reuid="$account" --regid="$(id -g "$account")" --init-groups \
			env HOME="$room" USER="$account" LOGNAME="$account" "$@")
	else
		"$@"
	fi
}

# ---- The build

setup_copy() { # NAME: the sources, without what builds leave, in $room/NAME
	mkdir -p "$room/$1"
	tar -C "$top" -c --exclude=./.git --exclude=./autom4te.cache --exclude=./build-aux --exclude=./m4 \
		--exclude=./configure --exclude=./config.status --exclude=./Makefile --exclude=Makefile.in \
		--exclude='*.o' --exclude='*.a' --exclude=__pycache__ . | tar -C "$room/$1" -x --no-same-owner
	if [ "$(id -u)" = 0 ]; then
		chown -R "$account:" "$room/$1"
	fi
}

build_step() { # COMMAND...: in $build, talks only when it fails
	as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$build" "$@" >"$room/build.log" 2>&1 || {
		tail -n 30 "$room/build.log" >&2
		fail "the build failed at: $*" "read the lines above; a tree that you changed has to be mended first"
	}
}

setup_build() {
	build=$room/$1
	shift
	setup_copy "${build##*/}"
	build_step autoreconf -fi
	build_step ./configure "$@"
	build_step make -j"$(nproc)"
}

# WHAT COMMAND...: one check, counted in $passed or $failed; shows the end of a failed command's output.
check() {
	what=$1
	shift
	if "$@" >"$room/check.log" 2>&1; then
		passed=$((passed + 1))
		return
	fi
	tail -n 40 "$room/check.log"
	say "FAILED: $what"
	failed=$((failed + 1))
}

# ---- PostgreSQL

postgres_find() {
	pgbin=
	for directory in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV) /usr/pgsql-*/bin \
		"$(pg_config --bindir 2>/dev/null)" "$(dirname "$(command -v initdb || echo /)")"; do
		if [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ] && [ -x "$directory/psql" ]; then
			pgbin=$directory
			return
		fi
	done
	fail "PostgreSQL's server programs (initdb, postgres) are not to be found" \
		"install the PostgreSQL server package and try again"
}

port_is_taken() { # PORT
	grep -qi ":$(printf %04X "$1") [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# Asked of the kernel; another process may still be quicker, and then the server that wanted it says so.
free_port() {
	port=$((20000 + $$ % 10000))
	while port_is_taken "$port"; do
		port=$((port + 1))
	done
	echo "$port"
}

# Sets `postgres_password`. Options for postgres may follow. Returns when it accepts connections.
postgres_start() {
	pgdata=$1 pgport=$2
	shift 2
	postgres_password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
	as_account sh -c 'umask 077; printf "%s\n" "$1" > "$2"' sh "$postgres_password" "$room/password"
	as_account "$pgbin/initdb" -D "$pgdata" -U postgres -A scram-sha-256 --pwfile="$room/password" -E UTF8 --locale=C \
		--no-sync >"$room/initdb.log" 2>&1 || {
		tail -n 15 "$room/initdb.log" >&2
		fail "initdb could not make a private PostgreSQL" "read the lines above"
	}
	as_account sh -c 'cat >> "$1"' sh "$pgdata/postgresql.conf" <<-CONF
		listen_addresses = '127.0.0.1'
		port = $pgport
		unix_socket_directories = '$room'
		fsync = off
	CONF
	at_exit "postgres_stop"
	as_account "$pgbin/pg_ctl" -D "$pgdata" -l "$room/postgres.log" -w -t 60 ${1:+-o "$*"} start >/dev/null 2>&1 || {
		tail -n 15 "$room/postgres.log" >&2
		fail "the private PostgreSQL did not start" "read the lines above"
	}
}
postgres_stop() {
	as_account "$pgbin/pg_ctl" -D "$pgdata" -m immediate -w stop >/dev/null 2>&1 || :
}
