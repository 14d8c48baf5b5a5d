/* Where `pgweir top` finds the console: a connection string, a URI, or a configuration file. */
#include "main/top_connection.h"

#include "base/text.h"
#include "conf/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets a key of a connection string. */
static bool set_key(struct console_address *a, const char *key, const char *value, char *why,
		    size_t size)
{
	const struct { const char *key; char *to; size_t size;
	} keys[] = {
		{ "host", a->host, sizeof(a->host) },
		{ "hostaddr", a->host, sizeof(a->host) },
		{ "port", a->port, sizeof(a->port) },
		{ "user", a->user, sizeof(a->user) },
		{ "password", a->password, sizeof(a->password) },
		{ "dbname", a->database, sizeof(a->database) },
	};

	if ((strcmp(key, "sslmode") == 0 &&
	     (strcmp(value, "require") == 0 || text_starts(value, "verify"))) ||
	    (strcmp(key, "channel_binding") == 0 && strcmp(value, "require") == 0)) {
		snprintf(why, size, "%s=%s: this client does not use TLS", key, value);
		return false;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].key, key) == 0 && !text_copy(keys[i].to, keys[i].size, value)) {
			snprintf(why, size, "%s is too long", key);
			return false;
		}
	}
	return true;
}

/* key = value pairs; a value in single quotes may have blanks; a backslash quotes the next
   character. */
static bool read_pairs(struct console_address *a, const char *at, char *why, size_t size)
{
	char key[64], value[256];

	for (at += strspn(at, " \t\n"); *at; at += strspn(at, " \t\n")) {
		size_t length = strcspn(at, "= \t\n"), used = 0;
		bool is_quoted;

		if (length >= sizeof(key) || at[length + strspn(at + length, " \t\n")] != '=') {
			snprintf(why, size, "\"%.40s\" is no key=value pair", at);
			return false;
		}
		snprintf(key, sizeof(key), "%.*s", (int)length, at);
		at = strchr(at + length, '=') + 1;
		at += strspn(at, " \t\n");
		is_quoted = *at == '\'';
		at += is_quoted;
		while (*at && (is_quoted ? *at != '\'' : !strchr(" \t\n", *at))) {
			at += *at == '\\' && at[1];
			if (used + 1 < sizeof(value))
				value[used++] = *at;
			at++;
		}
		value[used] = '\0';
		at += is_quoted && *at;
		if (!set_key(a, key, value, why, size))
			return false;
	}
	return true;
}

/* Copies a part of a URI, and decodes %XX. */
static void top_decode(char *to, size_t size, const char *from, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used + 1 < size; i++) {
		unsigned code;

		if (from[i] == '%' && i + 2 < length + 0 &&
		    sscanf(from + i + 1, "%2x", &code) == 1) {
			to[used++] = (char)code;
			i += 2;
		} else {
			to[used++] = from[i];
		}
	}
	to[used] = '\0';
}

/* [user[:password]@][host][:port][/database][?key=value&...] */
static bool read_uri(struct console_address *a, const char *at, char *why, size_t size)
{
	size_t authority = strcspn(at, "/?"), length;
	const char *sign = memchr(at, '@', authority), *colon, *end = at + authority;
	char key[64], value[256];

	if (sign) {
		colon = memchr(at, ':', (size_t)(sign - at));
		top_decode(a->user, sizeof(a->user), at, (size_t)((colon ? colon : sign) - at));
		if (colon)
			top_decode(a->password, sizeof(a->password), colon + 1,
				   (size_t)(sign - colon - 1));
		at = sign + 1;
	}
	if (*at == '[') {
		at++;
		length = strcspn(at, "]");
		colon = at[length] == ']' && at[length + 1] == ':' ? at + length + 1 : NULL;
	} else {
		colon = memchr(at, ':', (size_t)(end - at));
		length = (size_t)((colon ? colon : end) - at);
	}
	if (length > 0)
		top_decode(a->host, sizeof(a->host), at, length);
	if (colon)
		top_decode(a->port, sizeof(a->port), colon + 1, (size_t)(end - colon - 1));
	if (*end == '/') {
		length = strcspn(end + 1, "?");
		if (length > 0)
			top_decode(a->database, sizeof(a->database), end + 1, length);
		end += 1 + length;
	}
	while (*end == '?' || *end == '&') {
		length = strcspn(++end, "=&");
		top_decode(key, sizeof(key), end, length);
		end += length + (end[length] == '=');
		length = strcspn(end, "&");
		top_decode(value, sizeof(value), end, length);
		end += length;
		if (!set_key(a, key, value, why, size))
			return false;
	}
	return true;
}

/* The address at which a process with this configuration listens. */
static bool top_read_file(struct console_address *a, const char *path, char *why, size_t size)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *conf = conf_load(path, &problems);
	const struct settings *s;

	if (!conf) {
		snprintf(why, size, "%s: %s", path,
			 problems.count > 0 ? problems.items[0].text : "out of memory");
		conf_problems_free(&problems);
		return false;
	}
	conf_problems_free(&problems);
	s = &conf->settings;
	if (s->unix_socket_dir && *s->unix_socket_dir)
		text_copy(a->host, sizeof(a->host), s->unix_socket_dir);
	else if (s->listen_addr && *s->listen_addr && strcmp(s->listen_addr, "*") != 0)
		snprintf(a->host, sizeof(a->host), "%.*s", (int)strcspn(s->listen_addr, ", "),
			 s->listen_addr);
	else
		text_copy(a->host, sizeof(a->host), "localhost");
	snprintf(a->port, sizeof(a->port), "%lld", (long long)s->listen_port);
	conf_drop(&conf);
	return true;
}

static const char *environment(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

bool console_address_read(struct console_address *a, const char *argument, char *why, size_t size)
{
	bool is_uri = text_starts(argument, "postgres://") ||
		      text_starts(argument, "postgresql://");

	memset(a, 0, sizeof(*a));
	text_copy(a->host, sizeof(a->host), environment("PGHOST", "localhost"));
	text_copy(a->port, sizeof(a->port), environment("PGPORT", "6432"));
	text_copy(a->user, sizeof(a->user), environment("PGUSER", "pgweir"));
	text_copy(a->password, sizeof(a->password), environment("PGPASSWORD", ""));
	text_copy(a->database, sizeof(a->database), "pgweir");
	if (is_uri)
		return read_uri(a, strstr(argument, "://") + 3, why, size);
	if (strchr(argument, '=') && *argument != '/' && *argument != '.')
		return read_pairs(a, argument, why, size);
	return top_read_file(a, argument, why, size);
}
