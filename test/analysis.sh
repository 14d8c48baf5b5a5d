#!/bin/sh
#
# Static analysis: sh test/analysis.sh [TOOL...], by default all of these:
#
#	gcc		gcc -fanalyzer
#	tidy		clang-tidy, with the checks of test/analysis/clang-tidy
#	cppcheck
#	scan		scan-build, clang's analyzer over the whole build
#	shell		shellcheck, of every script
#
# As root, or with sudo for the packages. A finding must be fixed, or listed in test/analysis/accepted.tsv with the reason why it
# is not a fault; when all tools run, an unused entry of this list is a finding too. Takes about a quarter of an hour on two cores. Each tool is one item of the last line, "N passed, M failed"; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

case ${1-} in
--help | -h)
	sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
	exit 0
	;;
esac
all="gcc tidy cppcheck scan shell"
[ $# -gt 0 ] || {
	# shellcheck disable=SC2086
	set -- $all
	whole=yes
}

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libsystemd-dev libpam0g-dev libldap-dev clang clang-tidy clang-tools cppcheck shellcheck python3
setup_room
setup_copy source
as_account sh -c 'cd source && autoreconf -fi' >"$room/autoreconf.log" 2>&1 || fail "autoreconf" "$(tail -n 5 "$room/autoreconf.log")"

in_source() {
	as_account sh -c 'cd "$1/source" && shift && exec "$@"' sh "$room" "$@"
}

# A separate build: NAME, the compiler's flags, and the command that runs configure and make.
analyse_build() {
	directory=$1 flags=$2
	shift 2
	as_account mkdir "$directory"
	as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$directory" "$@" ../source/configure -q --disable-lto CFLAGS="$flags"
	as_account "$@" make -s -C "$directory" -j"$(nproc)" pgweir
}

analyse_gcc() {
	analyse_build gcc "-O1 -g -fanalyzer" env CC=gcc
}

analyse_tidy() {
	in_source sh -c 'ls src/*/*.c | xargs -n 4 -P "$(nproc)" sh -c '\''clang-tidy -quiet --config-file=test/analysis/clang-tidy "$@" -- \
		-std=c11 -D_GNU_SOURCE -Iinclude -DHAVE_SYSTEMD=1 -DHAVE_PAM=1 -DHAVE_LDAP=1 -w'\'' sh'
}

analyse_cppcheck() {
	in_source cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,performance,portability --inline-suppr -D_GNU_SOURCE -Iinclude \
		--include=/usr/include/uthash.h --template='{file}:{line}:{column}: {severity}: {message} [{id}]' \
		--suppressions-list=test/analysis/cppcheck src
}

analyse_scan() {
	# the checker that is left out: see clang-tidy
	analyse_build scan "-O1 -g" scan-build --use-cc=clang -disable-checker valist.Uninitialized -o reports
}

analyse_shell() {
	in_source sh -c 'find . -name "*.sh" | sort | xargs shellcheck -x -f gcc -P etc:test -e "$(sed -n "s/^\(SC[0-9]*\).*/\1/p" test/analysis/shellcheck | paste -s -d ,)"'
}

passed=0
failed=0
for tool in "$@"; do
	case " $all " in *" $tool "*) ;; *) fail "no such tool: $tool" "one of: $all" ;; esac
	say "$tool"
	# some tools fail when they have findings; judge.py distinguishes that from a tool that did not run
	(set +e; "analyse_$tool"; echo "status $?") >"$room/$tool.log" 2>&1
	if python3 "$top/test/analysis/judge.py" "$room/source" "$tool" "$room/$tool.log" "$room/used"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
if [ "${whole-no}" = yes ] && ! python3 "$top/test/analysis/judge.py" "$room/source" --unused "$room/used"; then
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
