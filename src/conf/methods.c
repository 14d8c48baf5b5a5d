/*
 * Lists of authentication methods that a server may ask for: require_auth of libpq.
 *
 * Invariant: a list names each method at most once, and all of its words have a `!` in front, or none has.
 */
#include "conf/methods.h"

#include "base/text.h"
#include "conf/conf.h"

#include <stdio.h>
#include <string.h>

#define WORD_MOST 16

static const char blanks[] = " \t";

static const char *const words[SERVER_METHODS] = {
	[METHOD_PASSWORD] = "password", [METHOD_MD5] = "md5", [METHOD_GSS] = "gss", [METHOD_SSPI] = "sspi",
	[METHOD_SCRAM] = "scram-sha-256", [METHOD_NONE] = "none",
};

/* Returns the method of this word, or SERVER_METHODS. */
static int method_of(const char *word, size_t size)
{
	char copy[WORD_MOST];
	int method = 0;

	if (size >= sizeof(copy))
		return SERVER_METHODS;
	memcpy(copy, word, size);
	copy[size] = '\0';
	while (method < SERVER_METHODS && !text_equal_fold(words[method], copy))
		method++;
	return method;
}

/* Adds the word at *text to *list, and moves *text after the word and the following blanks. False: the word cannot be added. */
static bool add_word(const char **text, int64_t *list)
{
	bool forbidden = **text == '!';
	const char *word = *text + forbidden;
	size_t size = strcspn(word, ", \t");
	int method = method_of(word, size);

	if (method == SERVER_METHODS || *list >> method & 1)
		return false;
	if (*list != 0 && forbidden != ((*list & METHODS_FORBIDDEN) != 0))
		return false;
	*list |= (int64_t)1 << method | (forbidden ? METHODS_FORBIDDEN : 0);
	*text = word + size;
	*text += strspn(*text, blanks);
	return true;
}

bool methods_read(const char *text, int64_t *list)
{
	int64_t found = 0;

	text += strspn(text, blanks);
	if (!*text) {
		*list = CONF_UNSET;
		return true;
	}
	if (!add_word(&text, &found))
		return false;
	while (*text == ',') {
		text++;
		text += strspn(text, blanks);
		if (!add_word(&text, &found))
			return false;
	}
	if (*text)
		return false;
	*list = found;
	return true;
}

const char *methods_text(int64_t list, char *buf, size_t size)
{
	const char *mark = list & METHODS_FORBIDDEN ? "!" : "";
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; list != CONF_UNSET && i < SERVER_METHODS; i++) {
		if (!(list >> i & 1))
			continue;
		snprintf(buf + used, size - used, "%s%s%s", used ? "," : "", mark, words[i]);
		used = strlen(buf);
	}
	return buf;
}

bool methods_allow(int list, enum server_method method)
{
	/* whoever can have the password by asking for it gains nothing by not asking */
	if (method == METHOD_NONE && methods_name(list, METHOD_PASSWORD))
		return true;
	return list == CONF_UNSET || (list >> method & 1) != ((list & METHODS_FORBIDDEN) != 0);
}

bool methods_name(int list, enum server_method method)
{
	return list != CONF_UNSET && !(list & METHODS_FORBIDDEN) && list >> method & 1;
}
