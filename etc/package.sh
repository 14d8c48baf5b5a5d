#!/bin/sh
#
# Builds a Debian package of pgweir for the release of this machine, checks it with lintian, and tests it in a fresh root directory with
# systemd and PostgreSQL, builds etc/Containerfile and runs the container: sh etc/package.sh [OPTION...]
#
#	--lto		optimise over the borders of files, for a package that is released: a sixth fewer instructions for a query, and some
#			minutes more
#	--rpm		the rpm package of etc/rpm/pgweir.spec instead, by Debian's rpmbuild, checked with rpmlint and unpacked
#	--output DIR	put the package there; otherwise in the working directory
#	--no-test	leave out the fresh root, which needs root privileges
#	--build-dir DIR	keep the archive of the fresh root there, for the next run
#
# MAINTAINER="Name <address>" is the maintainer of the package. The last line counts the checks; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

output=.
fresh=yes
rpm=no
lto=no
take_option() {
	taken=1
	case $1 in
	--lto) lto=yes ;;
	--rpm) rpm=yes ;;
	--output)
		[ $# -gt 1 ] || fail "--output wants a directory" "sh $0 --help"
		output=$2 taken=2
		;;
	--no-test) fresh=no ;;
	*) fail "\"$1\" is no option" "sh $0 --help" ;;
	esac
}
. "$top/test/options.sh"

passed=0
failed=0

# ---- The package

# FILE NAME: the licence as debian/copyright wants it.
stanza() {
	sed -n 's/^Copyright (c) /Copyright: /p' "$1"
	echo "License: $2"
	sed -e '/^The MIT License/d' -e '/^Copyright/d' -e 's/^$/./' -e 's/^/ /' "$1" | sed -n '/[^ .]/,$p'
}

# VERSION: writes debian/ of the tree in $room/tree from the templates.
write_debian() {
	tree=$room/tree
	libraries="debhelper-compat (= 13)"
	for name in $BUILD_PACKAGES $LIBRARIES; do
		libraries="$libraries, $name"
	done
	rm -rf "$tree/debian"
	mkdir "$tree/debian" "$tree/debian/source"
	echo "3.0 (native)" >"$tree/debian/source/format"
	cp -p "$tree"/etc/debian/* "$tree/debian"
	stanza "$tree/LICENSE" ISC >"$room/license"
	stanza "$tree/src/web/uPlot.LICENSE" Expat >"$room/uplot"
	sed -i -e "s|@VERSION@|$1|" -e "s|@MAINTAINER@|${MAINTAINER:-The pgweir authors <pgweir@packages.invalid>}|" \
		-e "s|@RELEASE@|$release|" -e "s|@DATE@|$(date -R)|" -e "s|@BUILD_DEPENDS@|$libraries|" \
		-e "/@LICENSE@/{r $room/license
		d}" -e "/@UPLOT_LICENSE@/{r $room/uplot
		d}" "$tree/debian/control" "$tree/debian/changelog" "$tree/debian/copyright"
	sed -i "s/^\(#define PGWEIR_VERSION \).*/\1\"$1\"/" "$tree/include/base/version.h"
	# debhelper builds without dependency tracking
	grep -rlZ --include='*.c' PGWEIR_VERSION "$tree" | xargs -0 touch
	[ "$(id -u)" != 0 ] || chown -R "$account:" "$tree"
}

# VERSION: builds $room/pgweir_VERSION_ARCHITECTURE.deb.
build_package() {
	write_debian "$1"
	build=$room/tree
	configure=
	[ "$lto" = yes ] || configure=--disable-lto
	build_step env PGWEIR_CONFIGURE="$configure" dpkg-buildpackage -b -us -uc -nc -j"$(nproc)"
}

# ---- The rpm package

# COMMAND...: a program of rpm with its files in the room.
rpm_here() {
	program=$1
	shift
	as_account "$program" --define "_topdir $room/rpm" --define "_dbpath $room/rpmdb" "$@"
}

# Builds the source archive and the binary package; BuildRequires name packages of other distributions, so they are not looked up here.
build_rpm() {
	setup_copy "pgweir-$version"
	as_account mkdir -p "$room/rpm/SOURCES"
	as_account tar -C "$room" -czf "$room/rpm/SOURCES/pgweir-$version.tar.gz" "pgweir-$version"
	sed -e "s|@VERSION@|$version|" -e "s|@MAINTAINER@|${MAINTAINER:-The pgweir authors <pgweir@packages.invalid>}|" \
		-e "s|@DATE@|$(LC_ALL=C date '+%a %b %d %Y')|" "$top/etc/rpm/pgweir.spec" >"$room/pgweir.spec"
	chmod 644 "$room/pgweir.spec"
	without=
	[ "$lto" = yes ] || without="--without lto"
	build=$room
	# shellcheck disable=SC2086
	build_step rpmbuild --define "_topdir $room/rpm" --define "_smp_mflags -j$(nproc)" --nodeps -bb $without "$room/pgweir.spec"
	package=$(find "$room/rpm/RPMS" -name "pgweir-$version-*.rpm" ! -name '*debug*')
}

# Unpacks the package, and checks what it has: the scripts' grammar, the configuration, whose files an upgrade keeps.
test_rpm() {
	check "rpmlint of the spec" rpmlint --strict --config "$top/etc/rpm/rpmlint.toml" "$room/pgweir.spec"
	check "rpmlint of the package" rpmlint --strict --config "$top/etc/rpm/rpmlint.toml" "$package"
	rpm_here rpm -qp --qf '%{PREIN}\n%{POSTIN}\n%{POSTTRANS}\n' "$package" >"$room/scripts"
	check "the scripts" sh -n "$room/scripts"
	check "the configuration is the administrator's" prints 3 sh -c 'echo "$1" | grep -c ^/etc/' sh "$(rpm_here rpm -qpc "$package")"
	as_account mkdir "$room/unpacked"
	as_account sh -c 'cd "$1" && rpm2cpio "$2" | cpio --quiet -id' sh "$room/unpacked" "$package"
	at=$room/unpacked
	for file in lib/systemd/system/pgweir.service lib/systemd/system/pgweir.service.d/package.conf share/man/man5/pgweir.5 \
		share/doc/pgweir/examples/prometheus-rules.yml; do
		check "$file" test -s "$at/usr/$file"
	done
	check "the program of the package" prints "pgweir $version" sh -c '"$1" --version | grep -o "pgweir [0-9.]*" | head -n 1' sh "$at/usr/bin/pgweir"
	sed -i -e "s|/etc/pgweir|$at/etc/pgweir|" -e "s|/run/pgweir|$at|" -e "s|/var/log/pgweir|$at|" "$at/etc/pgweir/pgweir.ini"
	check "pgweir --check accepts the configuration" as_account "$at/usr/bin/pgweir" --check "$at/etc/pgweir/pgweir.ini"
}

# ---- The fresh root

# FILE [PACKAGES]: an archive of a new root.
archive_root() {
	say "Making a root with mmdebstrap"
	# the machine's own sources, if they are in one file
	sources=/etc/apt/sources.list.d/debian.sources
	[ -e "$sources" ] || sources=
	mmdebstrap --quiet --format=tar --variant=minbase ${2:+"--include=$2"} "$release" "$1.new" ${sources:+"$sources"} >"$room/mmdebstrap.log" 2>&1 || {
		tail -n 20 "$room/mmdebstrap.log" >&2
		fail "mmdebstrap could not make a root" "read the lines above"
	}
	mv "$1.new" "$1"
}

# Unpacks a root with the packages that pgweir depends on, and those that the tests need.
make_root() {
	needed=$(dpkg-deb -f "$package" Depends | sed -e 's/([^)]*)//g' -e 's/|[^,]*//g' -e 's/ //g')
	needed=$needed,systemd-sysv,postgresql,logrotate,openssl
	archive=$builds/root-$release-$(echo "$needed" | cksum | cut -d' ' -f1).tar
	[ -e "$archive" ] || archive_root "$archive" "$needed"
	root=$room/root
	mkdir "$root"
	at_exit "rm -rf --one-file-system '$root'"
	tar -C "$root" -xf "$archive"
}

# COMMAND...: runs it in the fresh root.
inside() {
	nsenter --target "$init" --all -- "$@" </dev/null
}

# WHAT COMMAND...: repeats the command for at least five minutes until it succeeds.
until_true() {
	what=$1
	shift
	tries=3000
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ "$tries" != 0 ] || {
			tail -n 20 "$room/boot.log" >&2
			fail "waited in vain: $what" "read the lines above"
		}
		sleep 0.1
	done
}

init_is_up() {
	init=$(cat "/proc/$machine/task/$machine/children") && init=${init%% *} && [ -n "$init" ] &&
		inside systemctl is-system-running --wait
}

# Without a systemd around, systemd-nspawn leaves its two control groups in each hierarchy, and does not start where one is left.
drop_groups() {
	[ ! -d /run/systemd/system ] || return 0
	unified=$(sed -n 's/^0:://p' /proc/self/cgroup)
	for here in "systemd$(sed -n 's/^[0-9]*:name=systemd://p' /proc/self/cgroup)" "unified$unified" "$unified"; do
		find "/sys/fs/cgroup/$here/payload" "/sys/fs/cgroup/$here/supervisor" -depth -type d -exec rmdir {} + 2>/dev/null || :
	done
}

boot() {
	keep=
	init=
	drop_groups
	[ -d /run/systemd/system ] || keep=--keep-unit
	systemd-nspawn --quiet --directory="$root" --boot --register=no $keep --private-network --console=pipe \
		>"$room/boot.log" 2>&1 </dev/null &
	machine=$!
	at_exit halt
	until_true "systemd in the fresh root" init_is_up
}

halt() {
	exec 3>&- 4>&- 5>&- 6>&-
	kill -KILL "$machine" ${init:+"$init"} 2>/dev/null || :
	wait "$machine" 2>/dev/null || :
	[ -z "$init" ] || until_true "the end of the fresh root" not kill -0 "$init"
	drop_groups
}

as_postgres() {
	inside runuser -u postgres -- psql -XAtq "$@"
}

# DATABASE [OPTIONS] SQL: through pgweir.
query() {
	inside env PGPASSWORD=app-secret psql -XAtq "host=127.0.0.1 port=6432 user=app dbname=$1" -c "$2"
}

# SQL: on the console, as the account of the service.
console() {
	inside timeout 60 runuser -u pgweir -- psql -XAtq -h /run/pgweir -p 6432 pgweir -c "$1"
}

# VALUE COMMAND...: whether the command prints the value.
prints() {
	wanted=$1
	shift
	printed=$("$@") || return
	[ "$printed" = "$wanted" ] || {
		echo "printed \"$printed\", not \"$wanted\""
		return 1
	}
}

# FILE PATTERN: whether a line matches.
has_line() {
	grep -q -e "$2" "$1"
}

not() {
	! "$@"
}

main_pid() {
	inside systemctl show -P MainPID pgweir.service
}

# PID: whether it runs in the fresh root.
runs() {
	inside test -d "/proc/$1"
}

any_runs() {
	inside sh -c 'grep -qx pgweir /proc/[0-9]*/comm'
}

# PATH: what the HTTP endpoint answers.
get() {
	inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/8432 && printf "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" "$1" >&3 && cat <&3' bash "$1" |
		grep -a "$2"
}

# NAME [OPTIONS]: a psql that stays connected; it reads $room/NAME and writes $room/NAME.out.
connect() {
	mkfifo "$room/$1"
	nsenter --target "$init" --all -- env PGPASSWORD=app-secret psql -XAtq \
		"host=127.0.0.1 port=6432 user=app dbname=shop application_name=$1 ${2-sslmode=disable}" <"$room/$1" >"$room/$1.out" 2>&1 &
}

# NAME LINE...: waits for the line in the output of the client.
wait_line() {
	until_true "$1 prints $2" grep -q -x -e "$2" "$room/$1.out"
}

# The package's own configuration, and what an administrator adds.
test_install() {
	check "the package installs" inside dpkg -i "/root/${package##*/}"
	check "the service starts" prints active inside systemctl is-active pgweir.service
	check "the service starts at boot" prints enabled inside systemctl is-enabled pgweir.service
	check "systemd does not own the sockets" prints disabled inside sh -c 'systemctl is-enabled pgweir.socket || :'
	check "only the service reads the secrets" prints "root:pgweir 640" inside stat -c "%U:%G %a" /etc/pgweir/userlist.txt
	check "only the service reads the log" prints "pgweir:pgweir 750" inside stat -c "%U:%G %a" /var/log/pgweir
	check "pgweir --check accepts the configuration" inside runuser -u pgweir -- pgweir --check /etc/pgweir/pgweir.ini
	check "manual pages" inside sh -c 'cd /usr/share/man && ls man1/pgweir.1.gz man5/pgweir.5.gz man5/pgweir-console.5.gz'
	check "the configuration is the administrator's" prints 3 inside sh -c 'dpkg-query -W -f "\${Conffiles}" pgweir | grep -c " /etc/"'
	check "systemd finds little exposure" inside systemd-analyze security --no-pager --threshold=20 pgweir.service

	as_postgres -c "CREATE ROLE app LOGIN PASSWORD 'app-secret'" -c "CREATE DATABASE shop OWNER app"
	printf '"app" "app-secret"\n' >>"$root/etc/pgweir/userlist.txt"
	inside openssl req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=localhost -keyout /etc/pgweir/key.pem -out /etc/pgweir/cert.pem 2>/dev/null
	inside chown pgweir: /etc/pgweir/key.pem
	sed -i 's/^;server_tls_sslmode/server_tls_sslmode/' "$root/etc/pgweir/pgweir.ini"
	printf '%s\n' 'http_listen_port = 8432' 'client_tls_sslmode = allow' 'client_tls_key_file = /etc/pgweir/key.pem' \
		'client_tls_cert_file = /etc/pgweir/cert.pem' >>"$root/etc/pgweir/pgweir.ini"
	pid=$(main_pid)
	check "reload" inside systemctl reload pgweir.service
	check "a query" prints 42 query shop "SELECT 6 * 7"
	check "the page" get / "<title>"
	check "the metrics" get /metrics "^pgbouncer_up 1"
	check "a reload keeps the process" prints "$pid" main_pid
	check "logrotate" inside logrotate --force /etc/logrotate.d/pgweir
	until_true "a new log file" test -s "$root/var/log/pgweir/pgweir.log"
	check "the old log file" test -s "$root/var/log/pgweir/pgweir.log.1"
}

# `owner` holds a lock in a transaction, `waiter` waits for the lock, `idle` is idle, and `secret` has TLS.
test_upgrade() {
	for client in owner waiter idle "secret sslmode=require"; do
		# shellcheck disable=SC2086
		connect $client
	done
	exec 3>"$room/owner" 4>"$room/waiter" 5>"$room/idle" 6>"$room/secret"
	echo "CREATE TABLE t (i int); BEGIN; LOCK TABLE t; INSERT INTO t VALUES (1); SELECT 'locked'; SELECT pg_backend_pid();" >&3
	wait_line owner locked
	echo "SELECT 'rows', count(*) FROM t;" >&4
	until_true "the waiter's query" prints 1 as_postgres -c "SELECT count(*) FROM pg_locks WHERE NOT granted"
	echo "SET search_path = pg_catalog; SELECT 'ready';" >&5
	echo "SELECT 'ready';" >&6
	wait_line idle ready
	wait_line secret ready
	pid=$(main_pid)
	check "the upgrade" inside dpkg -i "/root/${newer##*/}"
	check "the service is active" prints active inside systemctl is-active pgweir.service
	check "another process serves" not prints "$pid" main_pid
	check "the new version serves" prints "pgweir $next)" sh -c 'echo "$1" | grep -o "pgweir .*"' sh "$(console 'SHOW VERSION')"
	check "no restart" prints 0 inside systemctl show -P NRestarts pgweir.service
	echo "SELECT 'pid', pg_backend_pid(); COMMIT; SELECT 'committed';" >&3
	wait_line owner committed
	check "the transaction keeps its server" has_line "$room/owner.out" "^pid|$(sed -n '2p' "$room/owner.out")$"
	wait_line waiter 'rows|1'
	echo "SELECT 'path', current_setting('search_path');" >&5
	wait_line idle 'path|pg_catalog'
	check "the TLS client keeps the old process" runs "$pid"
	echo "SELECT 'again';" >&6
	wait_line secret again
	exec 6>&-
	until_true "the end of the old process" not runs "$pid"
	check "no client has lost its connection" not grep -i "connection\|error\|fatal" "$room/owner.out" "$room/waiter.out" "$room/idle.out" "$room/secret.out"
	check "the administrator's configuration stays" has_line "$root/etc/pgweir/pgweir.ini" "^http_listen_port = 8432"
	pid=$(main_pid)
	check "the next reload keeps the process" inside systemctl reload pgweir.service
	check "the next reload keeps the process" prints "$pid" main_pid
}

# A paused pooler refuses an online restart.
test_refused_upgrade() {
	exec 3>&- 4>&- 5>&-
	console PAUSE >/dev/null
	pid=$(main_pid)
	check "an upgrade while the pooler is paused" inside dpkg -i "/root/${newer##*/}"
	cp "$room/check.log" "$room/paused.log"
	check "the upgrade says what to do" has_line "$room/paused.log" "then run: systemctl reload pgweir"
	check "the old process serves" prints "$pid" main_pid
	console RESUME >/dev/null
	check "the reload after RESUME" inside systemctl reload pgweir.service
	check "another process serves" not prints "$pid" main_pid
	check "a query after RESUME" prints 42 query shop "SELECT 6 * 7"
	check "restart" inside systemctl restart pgweir.service
	check "a query after the restart" prints 42 query shop "SELECT 6 * 7"
}

test_remove() {
	check "remove" inside dpkg --remove pgweir
	check "no process is left" not any_runs
	check "the configuration stays" test -e "$root/etc/pgweir/userlist.txt"
	check "the units are gone" not inside systemctl cat pgweir.service
	check "install again" inside dpkg -i "/root/${newer##*/}"
	check "a query with the old configuration" prints 42 query shop "SELECT 6 * 7"
	rm -f "$root/etc/pgweir/key.pem" "$root/etc/pgweir/cert.pem"
	check "purge" inside dpkg --purge pgweir
	check "no process is left" not any_runs
	check "no file is left" prints "" inside find /etc /usr /lib /run /var -xdev -name '*pgweir*' ! -path '/run/systemd/*'
	check "systemd has no failed unit" prints "" inside systemctl list-units --failed --quiet --no-legend
}

# COMMAND...: podman with its files in the room. crun refuses the hybrid control groups of some machines.
images() {
	podman --root "$room/images" --runroot "$room/images.run" --cgroup-manager cgroupfs --runtime runc "$@"
}

# Builds etc/Containerfile on a base made here, and runs the container on the network of the fresh root.
test_container() {
	base=$builds/base-$release.tar
	[ -e "$base" ] || archive_root "$base"
	at_exit "images rm --all --force >/dev/null 2>&1 || :; rm -rf --one-file-system '$room/images' '$room/images.run'"
	mkdir "$room/context" "$room/mounted"
	cp "$package" "$top/etc/entrypoint.sh" "$room/context"
	images import -q "$base" "docker.io/library/debian:$release-slim" >/dev/null 2>&1
	check "the container builds" images build --isolation chroot --pull-never -f "$top/etc/Containerfile" -t pgweir "$room/context"
	# the limits of this machine may be lower than podman's
	files=$(ulimit -Hn)
	limits="--ulimit nofile=$files:$files --ulimit nproc=1000:1000"
	# shellcheck disable=SC2086
	images run --rm --pull=never --network none $limits --entrypoint cat pgweir /etc/pgweir/pgweir.ini >"$room/mounted/pgweir.ini"
	printf '"app" "app-secret"\n' >"$room/mounted/userlist.txt"
	chown -R 432:432 "$room/mounted"
	chmod 640 "$room/mounted/userlist.txt"
	# shellcheck disable=SC2086
	check "the container starts" images run --detach --name served --pull=never --network "ns:/proc/$init/ns/net" $limits \
		--read-only --cap-drop=all --security-opt no-new-privileges -v "$room/mounted:/etc/pgweir:ro" pgweir
	until_true "a query through the container" query shop "SELECT 1"
	check "a query through the container" prints 42 query shop "SELECT 6 * 7"
	check "the container is not root" prints 432:432 stat -c %u:%g "/proc/$(images inspect --format '{{.State.Pid}}' served)"
	check "the container's root is read-only" prints 1 images exec --user 0 served sh -c \
		'touch /usr/file 2>&1 | grep -c "Read-only file system"'
	check "the container logs to standard error" sh -c 'echo "$1" | grep -q "process up: pgweir"' sh "$(images logs served 2>&1)"
	# shellcheck disable=SC2086
	check "an operator's command works" images run --rm --pull=never --network none $limits pgweir pgbouncer --version
	# shellcheck disable=SC2086
	check "variables make a configuration" prints "* = host='10.0.0.5'" sh -c 'echo "$1" | grep host' sh \
		"$(images run --rm --pull=never --network none $limits --read-only -e DB_HOST=10.0.0.5 pgweir --print)"
	check "the container stops" images stop --time 60 served
	check "the container ends without an error" prints 0 images inspect --format '{{.State.ExitCode}}' served
}

# NAME USER OPTION...: starts the image as an operator does, on the network of the fresh root, and asks it for an answer until it ends.
operate() {
	name=$1 user=$2
	shift 2
	# shellcheck disable=SC2086
	check "$name starts the image" images run --detach --name "$name" --pull=never $place $limits --read-only --cap-drop=all \
		--security-opt no-new-privileges --user "$user" "$@"
	until_true "a query through the image of $name" query shop "SELECT 1"
	check "a query through the image of $name" prints 42 query shop "SELECT 6 * 7"
}

has_reloaded() {
	images logs "$1" 2>&1 | grep -q "RELOAD: "
}

# NAME: ends it.
retire() {
	check "the image of $1 stops" images stop --time 60 "$1"
	check "the image of $1 ends without an error" prints 0 images inspect --format '{{.State.ExitCode}}' "$1"
}

# The image under three operators for PostgreSQL in Kubernetes: Crunchy's has a container with bash and pkill beside it, CloudNativePG's starts
# PgBouncer by its path, Zalando's sets variables.
test_operators() {
	for name in crunchy cloudnative; do
		mkdir "$room/$name"
		cat >"$room/$name/pgbouncer.ini" <<-INI
			[databases]
			* = host=127.0.0.1 port=${server_port:-5432}
			[pgbouncer]
			listen_addr = 127.0.0.1
			auth_type = scram-sha-256
			auth_file = /controller/userlist.txt
			unix_socket_dir =
			ignore_startup_parameters = extra_float_digits,options
		INI
		printf '"app" "app-secret"\n' >"$room/$name/userlist.txt"
		chmod 640 "$room/$name"/*
	done
	chown -R 1000650000:0 "$room/crunchy"
	chown -R 998:996 "$room/cloudnative"
	# shellcheck disable=SC2016
	operate crunchy 1000650000:0 -v "$room/crunchy:/controller:ro" --entrypoint sh pgweir -c -- 'exec "$@"' -- pgbouncer \
		/controller/pgbouncer.ini
	# shellcheck disable=SC2086
	check "pkill reloads it" images run --rm --pull=never --network none $limits --read-only --cap-drop=all --user 1000650000:0 \
		--pid container:crunchy --entrypoint bash pgweir -ceu "pkill -HUP --exact pgbouncer"
	until_true "a reload" has_reloaded crunchy
	retire crunchy
	operate cloudnative 998:996 -v "$room/cloudnative:/controller" --entrypoint /usr/bin/pgbouncer pgweir /controller/pgbouncer.ini
	retire cloudnative
	as_postgres -c "CREATE ROLE pooler LOGIN PASSWORD 'pooler-secret'"
	as_postgres -d shop -c "CREATE SCHEMA pooler; GRANT USAGE ON SCHEMA pooler TO pooler;
		CREATE FUNCTION pooler.user_lookup(name text, OUT uname text, OUT phash text) LANGUAGE sql SECURITY DEFINER
		AS 'SELECT rolname, rolpassword FROM pg_catalog.pg_authid WHERE rolname = name';"
	operate zalando 100:101 -e PGHOST=127.0.0.1 -e PGPORT="${server_port:-5432}" -e PGUSER=pooler -e PGPASSWORD=pooler-secret \
		-e PGSCHEMA=pooler -e CONNECTION_POOLER_PORT=6432 -e CONNECTION_POOLER_MODE=transaction \
		-e CONNECTION_POOLER_DEFAULT_SIZE=15 -e CONNECTION_POOLER_MIN_SIZE=7 -e CONNECTION_POOLER_RESERVE_SIZE=7 \
		-e CONNECTION_POOLER_MAX_CLIENT_CONN=10000 -e CONNECTION_POOLER_MAX_DB_CONN=30 pgweir
	retire zalando
}

# ---- All together

LIBRARIES="libsystemd-dev libpam0g-dev libldap-dev"
if [ "$rpm" = yes ]; then
	tools="rpm rpmlint cpio"
else
	tools="build-essential debhelper lintian"
fi
# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES $LIBRARIES $tools
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
version=$(sed -n 's/^#define PGWEIR_VERSION "\(.*\)"$/\1/p' "$top/include/base/version.h")
architecture=$(dpkg --print-architecture)
setup_room
setup_builds

say "Building the package"
if [ "$rpm" = yes ]; then
	build_rpm
	test_rpm
	cp "$package" "$output"
	say "The package: $output/${package##*/}"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
	exit
fi
setup_copy tree
build_package "$version"
package=$room/pgweir_${version}_$architecture.deb
check "lintian" lintian --fail-on error,warning,info --info "$room/pgweir_${version}_$architecture.changes"
cp "$package" "$output"
say "The package: $output/${package##*/}"

if [ "$fresh" = yes ]; then
	setup_packages mmdebstrap systemd-container podman runc
	next=$version+next
	newer=$room/pgweir_${next}_$architecture.deb
	say "Building a newer version, for the upgrade"
	build_package "$next"
	make_root
	cp "$package" "$newer" "$root/root"
	say "Testing the package in the fresh root"
	boot
	test_install
	test_upgrade
	test_refused_upgrade
	test_remove
	say "Testing the container"
	test_container
	place="--network ns:/proc/$init/ns/net"
	test_operators
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
