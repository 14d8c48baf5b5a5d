#!/bin/sh
#
# The entrypoint of the container: makes a configuration from environment variables and starts pgweir with it.
#
#	entrypoint.sh				a configuration from the environment; or /etc/pgweir/pgweir.ini if a volume has
#						put one there
#	entrypoint.sh FILE, -OPTION...		pgweir with these arguments
#	entrypoint.sh pgweir|pgbouncer ...	that command
#	entrypoint.sh --print			prints the configuration and ends
#
# The server, the first of these forms that is set:
#
#	DATABASE_URL=postgresql://user:password@host:port/dbname
#	DATABASES_HOST, _PORT, _USER, _PASSWORD, _DBNAME, _CLIENT_ENCODING, _POOL_SIZE, _POOL_MODE ...
#	DB_HOST, DB_PORT, DB_USER, DB_PASSWORD, DB_NAME
#	POSTGRESQL_HOST, _PORT, _USERNAME, _PASSWORD, _DATABASE; PGBOUNCER_DATABASE is the name for clients
#	PGHOST, PGPORT, PGUSER, PGPASSWORD, PGSCHEMA and CONNECTION_POOLER_PORT, _MODE, ..., as Zalando's operator sets them: users are
#	looked up by PGUSER with the function user_lookup() that the operator has made in PGSCHEMA
#
# A host alone (without a user) makes an entry in which each client's own user logs in at the server. With a user and a password clients log in
# as this user with this password, and all of them share its pool. DATABASES_CONFIG is a whole section [databases].
#
# The settings: PGWEIR_NAME or PGBOUNCER_NAME for each setting, such as PGWEIR_POOL_MODE=transaction; PGWEIR_ goes first. AUTH_TYPE,
# POOL_MODE, ADMIN_USERS and so on without a prefix are read if DATABASE_URL or DB_HOST gives the server.
#
# Users: USERLIST is the text of auth_file; USERLIST_FILE names a file with it. A variable of the server or of the users may be
# NAME_FILE, a file with the value: DB_PASSWORD_FILE. Kubernetes adds variables for services (PGWEIR_PORT=tcp://...), which are
# ignored.
#
# The files are made in PGWEIR_RUN_DIR, /tmp/pgweir by default, which only this user may read: the root file system may be read-only.
set -eu
umask 077

default=/etc/pgweir/pgweir.ini
directory=${PGWEIR_RUN_DIR:-/tmp/pgweir}
program=${PGWEIR_PROGRAM:-pgweir}

complain() {
	printf 'entrypoint: %s\n' "$*" >&2
}

# NAME: prints the value of the variable NAME, or of the file that NAME_FILE names. Status 1: neither is set.
value_of() {
	eval "value=\${$1-} is_set=\${$1+yes} file=\${$1_FILE-}"
	if [ -n "$file" ]; then
		[ -r "$file" ] || {
			complain "cannot read $1_FILE: $file"
			exit 1
		}
		cat "$file"
		return
	fi
	[ "$is_set" = yes ] || return 1
	printf '%s' "$value"
}

# NAME...: prints the value of the first variable that is set.
first_of() {
	for each in "$@"; do
		value_of "$each" && return
	done
	return 0
}

# NAME...: as first_of, for a value that must be one line: a second line would be a setting of its own.
line_of() {
	line=$(first_of "$@")
	case $line in
	*"
"*)
		complain "$1 has more than one line"
		exit 1
		;;
	esac
	printf '%s' "$line"
}

# Prints standard input as a quoted value of [databases], in which ${ would begin a variable.
quoted_value() {
	awk -v quote="'" '{ gsub(quote, quote quote); gsub(/[$][{]/, "$${"); printf "%s%s%s", quote, $0, quote }'
}

# KEY VALUE: a key of an entry, unless the value is empty.
key() {
	[ -z "$2" ] || printf ' %s=%s' "$1" "$(printf '%s' "$2" | quoted_value)"
}

# PART URL: prints user, password, host, port or dbname of a connection URI (libpq, 34.1.1.2. Connection URIs), without %-encoding.
part_of_url() {
	printf '%s' "$2" | LC_ALL=C awk -v part="$1" '
	function decode(text,   out, at) {
		out = ""
		while ((at = index(text, "%")) > 0) {
			out = out substr(text, 1, at - 1) sprintf("%c", hex(substr(text, at + 1, 1)) * 16 + hex(substr(text, at + 2, 1)))
			text = substr(text, at + 3)
		}
		return out text
	}
	function hex(digit) { return index("0123456789abcdef", tolower(digit)) - 1 }
	{
		sub(/^postgres(ql)?:\/\//, "")
		sub(/[?].*/, "")
		slash = index($0, "/")
		dbname = slash ? substr($0, slash + 1) : ""
		place = slash ? substr($0, 1, slash - 1) : $0
		# a password may contain an @ without encoding: the last one ends it
		for (at = length(place); at > 0 && substr(place, at, 1) != "@"; at--)
			;
		user = at ? substr(place, 1, at - 1) : ""
		host = substr(place, at + 1)
		colon = index(user, ":")
		password = colon ? substr(user, colon + 1) : ""
		if (colon)
			user = substr(user, 1, colon - 1)
		port = ""
		if (match(host, /:[0-9]+$/)) {
			port = substr(host, RSTART + 1)
			host = substr(host, 1, RSTART - 1)
		}
		gsub(/^\[|\]$/, "", host)
		values["user"] = user; values["password"] = password; values["host"] = host; values["port"] = port; values["dbname"] = dbname
		printf "%s", decode(values[part])
	}'
}

# Sets host, port, user, password, dbname (at the server), name (for clients), lookup (the user of auth_query), and short: whether
# settings without a prefix count.
find_server() {
	host='' port='' user='' password='' dbname='' name='' lookup='' short=no
	url=$(line_of DATABASE_URL)
	if [ -n "$url" ]; then
		host=$(part_of_url host "$url")
		port=$(part_of_url port "$url")
		user=$(part_of_url user "$url")
		password=$(part_of_url password "$url")
		dbname=$(part_of_url dbname "$url")
		short=yes
	elif [ -n "$(line_of DATABASES_HOST)" ]; then
		host=$(line_of DATABASES_HOST)
		port=$(line_of DATABASES_PORT)
		user=$(line_of DATABASES_USER)
		password=$(line_of DATABASES_PASSWORD)
		dbname=$(line_of DATABASES_DBNAME)
	elif [ -n "$(line_of DB_HOST)" ]; then
		host=$(line_of DB_HOST)
		port=$(line_of DB_PORT)
		user=$(line_of DB_USER)
		password=$(line_of DB_PASSWORD)
		dbname=$(line_of DB_NAME)
		short=yes
	elif [ -n "$(line_of CONNECTION_POOLER_PORT)" ]; then
		host=$(line_of PGHOST)
		port=$(line_of PGPORT)
		lookup=$(line_of PGUSER)
		password=$(line_of PGPASSWORD)
	else
		host=$(line_of POSTGRESQL_HOST)
		port=$(line_of POSTGRESQL_PORT)
		user=$(line_of POSTGRESQL_USERNAME)
		password=$(line_of POSTGRESQL_PASSWORD)
		dbname=$(line_of POSTGRESQL_DATABASE)
		name=$(line_of PGBOUNCER_DATABASE)
	fi
	name=${name:-${dbname:-*}}
	[ "$name" != '*' ] || dbname=''
}

databases() {
	echo '[databases]'
	if [ -n "$(first_of DATABASES_CONFIG)" ]; then
		first_of DATABASES_CONFIG | sed '/^\[databases\]/d'
		echo
		return
	fi
	[ -n "$host" ] || {
		complain "no server: set DATABASE_URL, DATABASES_HOST, DB_HOST, POSTGRESQL_HOST or PGHOST, or mount $default"
		exit 1
	}
	if [ "$name" = '*' ]; then
		printf '* ='
	else
		printf '"%s" =' "$(printf '%s' "$name" | sed 's/"/""/g')"
	fi
	key host "$host"
	key port "$port"
	key user "$user"
	key auth_user "$lookup"
	[ "$name" = "$dbname" ] || key dbname "$dbname"
	for more in POOL_SIZE MIN_POOL_SIZE RESERVE_POOL POOL_MODE CLIENT_ENCODING DATESTYLE TIMEZONE CONNECT_QUERY MAX_DB_CONNECTIONS \
		AUTH_USER TARGET_SESSION_ATTRS READS; do
		given=$(line_of "DATABASES_$more")
		[ -z "$given" ] || key "$(echo "$more" | tr '[:upper:]' '[:lower:]')" "$given"
	done
	printf '\n'
}

# The section of the settings: the value of a variable, or a default of the container. A variable PGWEIR_NAME that names no setting is
# probably a typing error; a value such as tcp://10.0.0.1:6432 is Kubernetes' word for a service.
settings() {
	echo '[pgweir]'
	"$program" --print-config "$directory/empty.ini" | sed -n 's/^\([a-z_0-9]*\) = .*/\1/p' |
		LC_ALL=C awk -v short="$short" -v directory="$directory" '
	# Sets given to the value of the first variable that is set. Returns whether there is one.
	function find(name,   count, i, variable) {
		for (i = 1; i <= prefixes; i++) {
			variable = prefix[i] toupper(name)
			if (!(variable in ENVIRON) || ENVIRON[variable] ~ /^(tcp|udp):\/\//)
				continue
			given = ENVIRON[variable]
			if (given ~ /\n/) {
				print "entrypoint: " variable " has more than one line" >"/dev/stderr"
				exit 1
			}
			return 1
		}
		return 0
	}
	BEGIN {
		prefix[1] = "PGWEIR_"; prefix[2] = "PGBOUNCER_"; prefix[3] = ""
		prefixes = short == "yes" ? 3 : 2
		standard["listen_addr"] = "*"
		standard["unix_socket_dir"] = "/tmp"
		standard["auth_type"] = "scram-sha-256"
		standard["auth_file"] = directory "/userlist.txt"
		if (ENVIRON["PGBOUNCER_PORT"] ~ /^[0-9]+$/)
			standard["listen_port"] = ENVIRON["PGBOUNCER_PORT"]
		if ("CONNECTION_POOLER_PORT" in ENVIRON) {
			standard["auth_type"] = "md5"	# and SCRAM, for users with such a secret
			standard["admin_users"] = ENVIRON["PGUSER"]
			standard["auth_query"] = "SELECT * FROM " ENVIRON["PGSCHEMA"] ".user_lookup($1)"
			standard["listen_port"] = ENVIRON["CONNECTION_POOLER_PORT"]
			standard["pool_mode"] = ENVIRON["CONNECTION_POOLER_MODE"]
			standard["default_pool_size"] = ENVIRON["CONNECTION_POOLER_DEFAULT_SIZE"]
			standard["min_pool_size"] = ENVIRON["CONNECTION_POOLER_MIN_SIZE"]
			standard["reserve_pool_size"] = ENVIRON["CONNECTION_POOLER_RESERVE_SIZE"]
			standard["max_client_conn"] = ENVIRON["CONNECTION_POOLER_MAX_CLIENT_CONN"]
			standard["max_db_connections"] = ENVIRON["CONNECTION_POOLER_MAX_DB_CONN"]
		}
		if ("PGWEIR_HTTP_LISTEN_PORT" in ENVIRON)
			standard["http_listen_addr"] = "*"
	}
	$1 != "conffile" {
		known[toupper($1)] = 1
		if (find($1)) {
			gsub(/[$][{]/, "$${", given)
			print $1 " = " given
		} else if (standard[$1] != "") {
			print $1 " = " standard[$1]
		}
	}
	END {
		for (variable in ENVIRON)
			if (variable ~ /^PGWEIR_/ && !(substr(variable, 8) in known) &&
			    variable !~ /^PGWEIR_(RUN_DIR|PROGRAM|PORT|PORT_.*|SERVICE_.*)$/)
				print "entrypoint: " variable " is not a setting" >"/dev/stderr"
	}'
}

userlist() {
	first_of USERLIST PGBOUNCER_USERLIST
	echo
	[ -z "$user$lookup" ] || [ -z "$password" ] ||
		printf '"%s" "%s"\n' "$(printf '%s' "$user$lookup" | sed 's/"/""/g')" "$(printf '%s' "$password" | sed 's/"/""/g')"
}

make_configuration() {
	mkdir -p "$directory"
	: >"$directory/empty.ini"
	find_server
	userlist >"$directory/userlist.txt"
	{
		databases
		settings
	} >"$directory/pgweir.ini"
}

case ${1-} in
pgweir | pgbouncer)
	exec "$@"
	;;
--print)
	make_configuration
	exec cat "$directory/pgweir.ini"
	;;
'')
	if [ -e "$default" ] && [ -z "$(first_of DATABASE_URL DATABASES_HOST DATABASES_CONFIG DB_HOST CONNECTION_POOLER_PORT POSTGRESQL_HOST)" ]; then
		exec "$program" "$default"
	fi
	make_configuration
	exec "$program" "$directory/pgweir.ini"
	;;
*)
	exec "$program" "$@"
	;;
esac
