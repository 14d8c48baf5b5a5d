#!/bin/sh
#
# Unpacks the PgBouncer with which the tests compare pgweir, and writes a program DIR/pgbouncer that runs it:
#
#	sh test/pgbouncer.sh DIR
#
# It is the package of Debian 13, or of a later suite if the machine has one. Nothing is installed. The package comes from the
# mirror that apt uses on this machine, together with the libraries that it was built with, and runs with these and their loader.
set -eu

suite=trixie
wanted="pgbouncer libevent-2.1-7t64 libssl3t64 libc6 libcares2 libpam0g libsystemd0 libldap2 libaudit1 libcap-ng0 libcap2 libsasl2-2
	zlib1g libzstd1"

mkdir -p "$1"
cd "$1"
dir=$(pwd)
mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(SITE)' 'Created-By: Packages' |
	sed -n 's/^Debian main //p' | grep -v -e -security | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian" >&2; exit 1; }
mkdir -p lists/partial archives root
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >sources.list
apt() {
	apt-get -q -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$dir/lists" \
		-o Dir::Cache="$dir" -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}
apt update
# shellcheck disable=SC2086
(cd archives && apt download $wanted)
for package in archives/*.deb; do
	dpkg-deb -x "$package" root
done
loader=$(find "$dir/root/usr/lib" -name 'ld-linux*.so.*' -path '*-linux-gnu*' | head -n 1)
cat >pgbouncer <<END
#!/bin/sh
exec $loader --library-path $(dirname "$loader") $dir/root/usr/sbin/pgbouncer "\$@"
END
chmod 755 pgbouncer
./pgbouncer --version
rm -r lists archives sources.list
