/*
 * The language of ask.h, and the rules of transactions that both sides know: the client, to judge its answers, and the server.
 */
#include "ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* before and behind a request */
static const struct { const char *before, *behind; } around[ASK_VERBS] = {
	[ASK_ROWS] = { "SELECT ", "" },
	[ASK_READ] = { "BEGIN READ ONLY /* ", " */" },
	[ASK_COMMIT] = { "COMMIT /* ", " */" },
	[ASK_ROLLBACK] = { "ROLLBACK /* ", " */" },
	[ASK_ROLE] = { "SET ROLE ", "" },
};

static const char *const words[ASK_VERBS] = {
	"rows", "begin", "commit", "rollback", "read", "error", "set", "copyin", "copyout", "forget", "empty", "role", "stream",
};

void ask_write(struct bytes *out, const struct ask *ask)
{
	if (ask->verb == ASK_EMPTY)
		return;
	if (ask->verb == ASK_FORGET)
		bytes_append_text(out, "DEALLOCATE ALL");
	else
		bytes_append_format(out, "%sask %u %u %s %u %u %u%s", around[ask->verb].before ? around[ask->verb].before : "", ask->client,
				    ask->serial, words[ask->verb], ask->a, ask->b, ask->milliseconds,
				    around[ask->verb].behind ? around[ask->verb].behind : "");
}

static uint32_t number(const char **at)
{
	char *end;
	unsigned long value = strtoul(*at, &end, 10);

	*at = end;
	return (uint32_t)value;
}

const char *ask_read(const char *text, struct ask *ask)
{
	size_t size;

	memset(ask, 0, sizeof(*ask));
	ask->verb = *text ? ASK_FORGET : ASK_EMPTY;
	if (!*text || strcmp(text, "DEALLOCATE ALL") == 0)
		return text + strlen(text);
	for (int verb = 0; verb < ASK_VERBS; verb++)
		if (around[verb].before && strncmp(text, around[verb].before, strlen(around[verb].before)) == 0)
			text += strlen(around[verb].before);
	if (strncmp(text, "ask ", 4) != 0)
		return NULL;
	text += 4;
	ask->client = number(&text);
	ask->serial = number(&text);
	text += strspn(text, " ");
	size = strcspn(text, " ");
	for (int verb = 0; verb < ASK_VERBS; verb++)
		if (strlen(words[verb]) == size && memcmp(words[verb], text, size) == 0)
			ask->verb = (enum ask_verb)verb;
	text += size;
	ask->a = number(&text);
	ask->b = number(&text);
	ask->milliseconds = number(&text);
	if (ask->verb < ASK_VERBS && around[ask->verb].behind)
		text += strlen(around[ask->verb].behind);
	/* what pgweir appends to a BEGIN */
	text += strspn(text, "\n");
	return *text && *text != ';' ? NULL : text;
}

bool ask_works_in_failed(const struct ask *ask)
{
	return ask->verb == ASK_COMMIT || ask->verb == ASK_ROLLBACK || ask->verb == ASK_EMPTY;
}

bool ask_moves(const struct ask *ask, char *tx)
{
	bool ends = ask->verb == ASK_COMMIT || ask->verb == ASK_ROLLBACK;

	if (ask->verb == ASK_ERROR || (*tx == 'E' && !ask_works_in_failed(ask))) {
		if (*tx == 'T')
			*tx = 'E';
		return false;
	}
	if (ask->verb == ASK_BEGIN || ask->verb == ASK_READ)
		*tx = 'T';
	else if (ends)
		*tx = 'I';
	return true;
}

void ask_tag(const struct ask *ask, uint32_t client, uint32_t serial, char tx_before, char *tag, size_t size)
{
	if (ask->verb == ASK_FORGET)
		snprintf(tag, size, "DEALLOCATE ALL");
	else if (ask->verb == ASK_READ)
		snprintf(tag, size, "BEGIN");
	else if (ask->verb == ASK_COMMIT || ask->verb == ASK_ROLLBACK)
		snprintf(tag, size, "%s", ask->verb == ASK_COMMIT && tx_before != 'E' ? "COMMIT" : "ROLLBACK");
	else if (ask->verb == ASK_ROLE)
		snprintf(tag, size, "SET");
	else
		snprintf(tag, size, "%s %u %u", words[ask->verb], client, serial);
}
