/*
 * Which parameters a client may ask for although they are not tracked, by their names ("Customized Options" for names with a dot).
 */
#include "pg/params.h"

#include "base/text.h"

#include <ctype.h>
#include <strings.h>

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (text_equal_fold(name, names[i]))
			return true;
	return false;
}

/* No parameter of a session that could be given back: words of the start-up message itself, in whatever case a client writes them, for a
   server would take them; the role, which has a way of its own (state/role.c); what can only be set while a session begins; what cannot be
   reset; and the prefix of those that pgweir itself keeps in a session, for what is noted there is set for other clients. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = {
		"user", "database", "replication", "options",
		"role", "session_authorization",
		"ignore_system_indexes", "jit_debugging_support", "jit_profiling_support", "local_preload_libraries",
		"session_preload_libraries", "log_connections", "log_disconnections", "post_auth_delay",
		"seed", "transaction_isolation", "transaction_read_only", "transaction_deferrable",
	};

	return strncasecmp(name, "_pq_.", 5) == 0 || strncasecmp(name, "pgweir.", 7) == 0 ||
	       is_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* What ends or delays a server connection that has no client, or another one. */
static bool is_harmful(const char *name)
{
	static const char *const names[] = { "idle_session_timeout", "transaction_timeout", "default_transaction_deferrable" };

	return is_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

bool params_has_form(const char *name)
{
	bool begins = true;
	const char *at;

	for (at = name; *at; at++) {
		if (*at == '.' ? begins : !isalpha((uint8_t)*at) && *at != '_' && (begins || !isdigit((uint8_t)*at)))
			return false;
		begins = *at == '.';
	}
	return !begins && at - name <= PARAMS_NAME_LONGEST;
}

bool params_can_be_restored(const char *name)
{
	return params_has_form(name) && !is_reserved(name);
}

bool params_is_settable(const char *name)
{
	return params_can_be_restored(name) && !is_harmful(name);
}
