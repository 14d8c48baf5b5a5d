/*
 * URLs of RFC 3986, as far as the setting patroni needs them: a scheme, a host and a port. Whatever
 * else a URL may have is refused, because ignoring it would ask a different question than the file
 * says.
 */
#include "conf/url.h"

#include "base/printable.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SEPARATORS ", \t\r\n"
#define SCHEME "http://"
#define SECURE_SCHEME "https://"

/* Writes the reason. Returns CONF_URL_BAD. */
#define BAD(...) (snprintf(why, why_size, __VA_ARGS__), CONF_URL_BAD)

/* Copies the host in front of the port, without the brackets of an IPv6 address. Returns the end of
   the host, or NULL. */
static const char *copy_host(struct conf_url *url, const char *at)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	static const char address[] = "abcdefABCDEF0123456789.:";
	bool has_brackets = *at == '[';
	size_t length;

	at += has_brackets;
	length = strspn(at, has_brackets ? address : letters);
	if (length == 0 || length >= sizeof(url->host) || (has_brackets && at[length] != ']'))
		return NULL;
	memcpy(url->host, at, length);
	url->host[length] = '\0';
	return at + length + has_brackets;
}

static enum conf_url_verdict url_read_url(const char *text, struct conf_url *url, char *why,
					  size_t why_size)
{
	const char *scheme = SCHEME, *at;
	char shown[100];
	int64_t port;

	/* The text may have a password, so it is not shown. */
	if (strchr(text, '@'))
		return BAD("a URL has a user or a password: remove it, and set patroni_user and "
			   "patroni_password");
	printable_text(text, shown, sizeof(shown));
	url->is_secure = strncasecmp(text, SECURE_SCHEME, strlen(SECURE_SCHEME)) == 0;
	if (url->is_secure)
		scheme = SECURE_SCHEME;
	if (strncasecmp(text, scheme, strlen(scheme)) != 0)
		return BAD("\"%s\" does not begin with http:// or https://; write http://host:port",
			   shown);
	at = copy_host(url, text + strlen(scheme));
	if (!at)
		return BAD("\"%s\" has no host name or address after %s; an IPv6 address is "
			   "written in brackets",
			   shown, scheme);
	if (*at != ':')
		return BAD("\"%s\" has no port after the host; Patroni's is usually 8008, as in "
			   "%s%s:8008",
			   shown, scheme, url->host);
	/* A slash at the end is the same URL. */
	snprintf(url->text, sizeof(url->text), "%.*s", (int)(strcspn(at + 1, "/")), at + 1);
	if (at[1] < '0' || at[1] > '9' || !text_to_int64(url->text, &port) || port < 1 ||
	    port > UINT16_MAX)
		return BAD("\"%s\" has no port from 1 to 65535 after the host", shown);
	at += 1 + strlen(url->text);
	if (*at && strcmp(at, "/") != 0)
		return BAD("\"%s\" has a path; write http://host:port alone", shown);
	url->port = (uint16_t)port;
	snprintf(url->text, sizeof(url->text), strchr(url->host, ':') ? "%s[%s]:%d" : "%s%s:%d",
		 scheme, url->host, url->port);
	return CONF_URL_OK;
}

enum conf_url_verdict conf_url_next(const char **list, struct conf_url *url, char *why,
				    size_t why_size)
{
	const char *at = *list ? *list + strspn(*list, SEPARATORS) : "";
	size_t length = strcspn(at, SEPARATORS);
	char text[512];

	if (length == 0)
		return CONF_URL_END;
	*list = at + length;
	if (length >= sizeof(text))
		return BAD("a URL is longer than %zu bytes", sizeof(text) - 1);
	memcpy(text, at, length);
	text[length] = '\0';
	return url_read_url(text, url, why, why_size);
}

bool conf_url_list_fault(const char *list, char *why, size_t why_size)
{
	struct conf_url url, before;
	enum conf_url_verdict verdict;
	const char *at = list, *again;
	unsigned count = 0;

	while ((verdict = conf_url_next(&at, &url, why, why_size)) == CONF_URL_OK) {
		again = list;
		for (unsigned i = 0; i < count; i++) {
			conf_url_next(&again, &before, why, why_size);
			if (url.port != before.port || !text_equal_fold(url.host, before.host))
				continue;
			snprintf(why, why_size, "\"%s\" is in the list twice; remove one",
				 url.text);
			return true;
		}
		if (++count <= URL_MOST)
			continue;
		snprintf(why, why_size, "the list has more than %d URLs", URL_MOST);
		return true;
	}
	if (verdict == CONF_URL_END && count == 0)
		snprintf(why, why_size, "the list has no URL; write http://host:port");
	return verdict == CONF_URL_BAD || count == 0;
}
