/*
 * Name servers with a port.
 *
 * resolv.conf(5) does not define ports, but local resolvers often use another port. Newer releases of c-ares parse "nameserver
 * 192.0.2.1:5353" and "nameserver [2001:db8::1]:5353"; older releases silently skip such a line and then query 127.0.0.1.
 * Therefore these lines are parsed here. c-ares reads the rest of the file.
 *
 * As in resolv.conf(5), a line has a keyword at its beginning and a value; unknown lines are ignored.
 */
#include "net/dns_servers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "net/address.h"

#define LINE_MOST 512
#define DNS_PORT 53

static bool read_port(const char *text, int *port)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || value < 1 || value > 65535)
		return false;
	*port = (int)value;
	return true;
}

/* Splits "192.0.2.1:53", "[2001:db8::1]:53", or an address without a port; modifies the text. Returns the address, or NULL. */
static const char *split(char *text, int *port, bool *has_port)
{
	char *ip = text, *colon = strchr(text, ':');
	struct address address;

	*port = DNS_PORT;
	*has_port = false;
	if (*text == '[') {
		char *end = strchr(text, ']');

		if (!end || (end[1] != ':' && end[1] != '\0'))
			return NULL;
		colon = end[1] == ':' ? end + 1 : NULL;
		*end = '\0';
		ip++;
	} else if (colon && strchr(colon + 1, ':')) {
		colon = NULL;		/* IPv6 without brackets */
	}
	if (colon) {
		*colon = '\0';
		*has_port = true;
		if (!read_port(colon + 1, port))
			return NULL;
	}
	return address_from_ip(&address, ip, 0) ? ip : NULL;
}

static bool add_server(struct bytes *list, char *line)
{
	static const char keyword[] = "nameserver";
	size_t length = sizeof(keyword) - 1;
	const char *ip;
	char *value;
	bool has_port;
	int port;

	if (strncmp(line, keyword, length) != 0 || !isblank((unsigned char)line[length]))
		return false;
	value = line + length + strspn(line + length, " \t");
	value[strcspn(value, " \t\r\n#;")] = '\0';
	ip = split(value, &port, &has_port);
	if (ip)
		bytes_append_format(list, strchr(ip, ':') ? "%s[%s]:%d" : "%s%s:%d", bytes_size(list) > 0 ? "," : "", ip, port);
	return ip && has_port;
}

char *dns_servers_read(const char *path)
{
	struct bytes list = BYTES_EMPTY;
	char line[LINE_MOST], *text = NULL;
	bool needed = false;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	while (fgets(line, sizeof(line), file))
		needed |= add_server(&list, line);
	fclose(file);
	bytes_append_string(&list, "");
	if (needed && !list.failed)
		text = mem_copy_string((const char *)bytes_front(&list));
	bytes_free(&list);
	return text;
}
