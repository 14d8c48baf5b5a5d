#ifndef HBA_ENDS_H
#define HBA_ENDS_H

/* Rules from text and clients to match them, for the tests of HBA and ident files. */
#include "conf/hba.h"

#include "../../fuzz/hba_read.h"
#include "tempfile.h"
#include "unit.h"

#include <arpa/inet.h>
#include <limits.h>

static struct conf_problems problems;

/* Reads rules from the texts of the two files (ident NULL: none). */
static struct hba *rules(const char *hba, const char *ident)
{
	const char *hba_path = temp_write("hba", hba), *ident_path = ident ? temp_write("ident", ident) : NULL;

	conf_problems_free(&problems);
	return hba_read(hba_path, ident_path, HBA_TLS_CERTIFICATES, NULL, &problems);
}

/* A machine that has none of the addresses. */
static enum hba_fit is_never_near(const struct hba_client *client, bool whole_net)
{
	(void)client;
	(void)whole_net;
	return HBA_FITS_NOT;
}

static struct hba_client client_of(const char *from, const char *database, const char *user)
{
	struct hba_client c = { .database = database, .user = user, .is_near = is_never_near };
	const char *ip = from;

	/* "tls 10.0.0.1", "10.0.0.1", "unix", each with "physical " in front */
	if (strncmp(ip, "physical ", 9) == 0) {
		c.is_physical = true;
		ip += 9;
	}
	if (strncmp(ip, "tls ", 4) == 0) {
		c.is_tls = true;
		ip += 4;
	}
	if (inet_pton(AF_INET, ip, c.ip) == 1)
		c.ip_size = 4;
	else if (inet_pton(AF_INET6, ip, c.ip) == 1)
		c.ip_size = 16;
	return c;
}

/* Returns the number of the matching line; negative: the matching line is invalid and refuses the login; 0: no line matches. */
static int line_for(const struct hba *hba, const char *from, const char *database, const char *user)
{
	struct hba_client c = client_of(from, database, user);
	const struct hba_rule *rule = hba_find(hba, &c);

	if (rule && rule->is_faulty)
		return -rule->line;
	return rule ? rule->line : 0;
}

/* The same for a file of this text. */
static inline int line_in(const char *text, const char *from, const char *database, const char *user)
{
	struct hba *hba = rules(text, NULL);
	int line = hba ? line_for(hba, from, database, user) : INT_MAX;

	hba_drop(&hba);
	return line;
}

/* Returns true if this text as a line of a file causes the error `why` in line 1 and admits no client. */
static inline bool is_refused(const char *text, const char *why)
{
	struct hba *hba = rules(text, NULL);
	bool is_right = hba && problems.errors == 1 && problems.items[0].line == 1 && strstr(problems.items[0].text, why) &&
			line_for(hba, "tls 10.0.0.1", "d", "u") <= 0 && line_for(hba, "unix", "d", "u") <= 0;

	if (!is_right)
		fprintf(stderr, "%s: %zu errors, %s\n", text, problems.errors, problems.count ? problems.items[0].text : "nothing said");
	hba_drop(&hba);
	return is_right;
}

#endif
