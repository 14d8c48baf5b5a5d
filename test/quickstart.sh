#!/bin/sh
#
# etc/quickstart.sh: sh test/quickstart.sh
#
# Runs it with a private PostgreSQL on free ports until it is up, and ends it. A compiler that notes its arguments shows that nothing is
# optimised at link time, which would take most of the minutes. The last line counts the checks; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

# none of its own
take_option() { :; }
. "$top/test/options.sh"
# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql curl
setup_room

passed=0
failed=0

not() {
	! "$@"
}

as_account sh -c 'cat >"$1" && chmod 755 "$1"' sh "$room/compiler" <<-EOS
	#!/bin/sh
	printf '%s\n' "\$*" >>"$room/arguments"
	exec gcc "\$@"
EOS
listen=$(free_port)
page=$((listen + 10000))

# Waits for the line that ends the start of the quickstart, or for its end.
wait_up() {
	until grep -q "Type next" "$room/up.log"; do
		kill -0 "$quickstart" 2>/dev/null || {
			cat "$room/up.log"
			return 1
		}
		sleep 0.1
	done
}

TMPDIR=$room CC=$room/compiler sh "$top/etc/quickstart.sh" --listen "$listen" --page "$page" >"$room/up.log" 2>&1 </dev/null &
quickstart=$!
at_exit "kill $quickstart 2>/dev/null || :"
check "the quickstart is up" wait_up
check "pgbench ran" grep -q "number of failed transactions: 0" "$room/up.log"
check "the console answered" grep -q "cl_waiting" "$room/up.log"
check "the page answers" sh -c 'curl -fsS "http://127.0.0.1:$1/" | grep -q "<title>"' sh "$page"
check "the compiler was this one" grep -q -e " -c .*src/main/main" "$room/arguments"
check "nothing is optimised at link time" not grep -q -e "-flto=auto.* -c .*src/" "$room/arguments"
kill -TERM "$quickstart" 2>/dev/null || :
wait "$quickstart" || :
check "nothing is left" not ls -d "$room"/pgweir.*
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
