# shellcheck shell=sh
#
# The command line of test/run.sh and test/drivers.sh. Sourced without arguments, so that it reads the caller's arguments: options
# are removed, and the rest in "$@" is for pytest.
#
#	--build-dir DIR	sets `builds`; empty without it
#	--help, -h	prints the comment at the top of the caller, and ends
#	--NAME ...	other options: take_option NAME [WORD...] of the caller sets `taken` to the number of words used

builds=
taken=
while [ $# -gt 0 ]; do
	taken=0
	case $1 in
	--build-dir)
		[ $# -gt 1 ] || fail "--build-dir wants a directory" "sh $0 --help"
		builds=$2 taken=2
		;;
	--help | -h)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*) take_option "$@" ;;
	esac
	[ "$taken" != 0 ] || break
	shift "$taken"
done
