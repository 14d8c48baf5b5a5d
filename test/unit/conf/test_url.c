/* Lists of URLs. */
#include "conf/url.h"
#include "unit.h"

#include <stdbool.h>

static struct conf_url url;
static char why[256];

/* The text of the first URL of a list, or the reason of its refusal. */
static const char *first(const char *list)
{
	enum conf_url_verdict verdict = conf_url_next(&list, &url, why, sizeof(why));

	return verdict == CONF_URL_OK ? url.text : verdict == CONF_URL_BAD ? why : "end";
}

TEST(urls)
{
	CHECK_PAIRS(first,
		    { "", "end" }, { " , ", "end" },
		    { "http://a:8008", "http://a:8008" },
		    { "HTTP://db-1.example.com:80/", "http://db-1.example.com:80" },
		    { " ,http://10.0.0.1:65535,x", "http://10.0.0.1:65535" },
		    { "http://[2001:db8::1]:8008/", "http://[2001:db8::1]:8008" });
	CHECK_TEXT(url.host, "2001:db8::1");
	CHECK_INT(url.port, 8008);
	CHECK(!url.is_secure);
	CHECK_TEXT(first("HTTPS://a:8008/"), "https://a:8008");
	CHECK(url.is_secure);
}

TEST(refused)
{
	CHECK_PAIRS(first,
		    { "a:8008", "\"a:8008\" does not begin with http:// or https://; write http://host:port" },
		    { "unix:///tmp", "\"unix:///tmp\" does not begin with http:// or https://; write http://host:port" },
		    { "http://admin:secret@a:8008", "a URL has a user or a password: remove it, and set patroni_user and patroni_password" },
		    { "http://:8008", "\"http://:8008\" has no host name or address after http://; an IPv6 address is written in brackets" },
		    { "https://:8008", "\"https://:8008\" has no host name or address after https://; an IPv6 address is written in brackets" },
		    { "http://[::1:8008", "\"http://[::1:8008\" has no host name or address after http://; an IPv6 address is written in brackets" },
		    { "http://[a%b]:1", "\"http://[a%b]:1\" has no host name or address after http://; an IPv6 address is written in brackets" },
		    { "http://a", "\"http://a\" has no port after the host; Patroni's is usually 8008, as in http://a:8008" },
		    { "http://a/cluster", "\"http://a/cluster\" has no port after the host; Patroni's is usually 8008, as in http://a:8008" },
		    { "http://a:", "\"http://a:\" has no port from 1 to 65535 after the host" },
		    { "http://a:0", "\"http://a:0\" has no port from 1 to 65535 after the host" },
		    { "http://a:+1", "\"http://a:+1\" has no port from 1 to 65535 after the host" },
		    { "http://a:65536", "\"http://a:65536\" has no port from 1 to 65535 after the host" },
		    { "http://a:8008x", "\"http://a:8008x\" has no port from 1 to 65535 after the host" },
		    { "http://a:8008?x", "\"http://a:8008?x\" has no port from 1 to 65535 after the host" },
		    { "http://a:8008/cluster", "\"http://a:8008/cluster\" has a path; write http://host:port alone" });
}

TEST(a_list)
{
	const char *list = "http://a:1,http://b:2 x,http://c:3,";

	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_OK);
	CHECK_TEXT(url.text, "http://a:1");
	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_OK);
	CHECK_TEXT(url.text, "http://b:2");
	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_BAD);
	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_OK);
	CHECK_TEXT(url.text, "http://c:3");
	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_END);
	list = NULL;
	CHECK_INT(conf_url_next(&list, &url, why, sizeof(why)), CONF_URL_END);
}

TEST(long_texts)
{
	char text[600];

	memset(text, 'a', sizeof(text));
	memcpy(text, "http://", 7);
	text[511] = '\0';
	CHECK(strstr(first(text), "has no host name"));
	text[511] = 'a';
	text[512] = '\0';
	CHECK_TEXT(first(text), "a URL is longer than 511 bytes");
	strcpy(text + 7 + 255, ":65535");
	first(text);
	CHECK_INT(strlen(url.host), 255);
	CHECK_INT(strlen(url.text), 7 + 255 + 6);
	/* a list of hosts in one URL is cut at the comma */
	CHECK_TEXT(first("http://a,b:8008"), "\"http://a\" has no port after the host; Patroni's is usually 8008, as in http://a:8008");
}

static const char *fault(const char *list)
{
	*why = '\0';
	CHECK(conf_url_list_fault(list, why, sizeof(why)) == (*why != '\0'));
	return why;
}

TEST(faults_of_a_list)
{
	char many[1000] = "";

	CHECK_PAIRS(fault,
		    { "http://a:1", "" }, { "http://a:1, http://a:2,http://b:1", "" },
		    { ",", "the list has no URL; write http://host:port" },
		    { "http://a:1,b", "\"b\" does not begin with http:// or https://; write http://host:port" },
		    { "http://a:1,http://b:1,HTTP://A:1/", "\"http://A:1\" is in the list twice; remove one" });
	for (int i = 0; i < URL_MOST; i++)
		sprintf(many + strlen(many), "http://a:%d ", i + 1);
	CHECK_TEXT(fault(many), "");
	strcat(many, "http://b:1");
	CHECK_TEXT(fault(many), "the list has more than 16 URLs");
}

UNIT_MAIN
