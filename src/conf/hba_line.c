/*
 * One line of an HBA file, as PostgreSQL 16 has them:
 *
 *	local      databases users            method [options]
 *	host       databases users ip/length  method [options]
 *	host       databases users ip mask    method [options]
 *
 * and hostssl, hostnossl, hostgssenc and hostnogssenc like host. GSSAPI encryption is not spoken here, so a hostgssenc line is
 * checked and then fits nobody, and hostnogssenc is host.
 *
 * Words of PostgreSQL that would need to know its roles (+group, samerole, samegroup), its methods that are not
 * here and its host names make a line faulty rather than wrong. A line that is understood but can never let anybody in
 * (peer over TCP, cert without TLS) holds with a warning, because passing over it would hand its clients to the next one.
 */
#include "conf/hba_parts.h"

#include "base/text.h"
#include "conf/check.h"
#include "conf/pattern.h"

#include <string.h>

/* ---- the first field ---- */

static bool read_type(struct hba_line *l, struct record *record, enum hba_tls tls)
{
	static const struct {
		const char *word;
		unsigned transports;
	} types[] = {
		{ "local", HBA_LOCAL }, { "host", HBA_TLS | HBA_CLEAR }, { "hostssl", HBA_TLS }, { "hostnossl", HBA_CLEAR },
		{ "hostnogssenc", HBA_TLS | HBA_CLEAR }, { "hostgssenc", 0 },
	};
	const struct record_word *word = record_field(record);
	size_t i = 0;

	if (!word)
		return false;
	while (i < sizeof(types) / sizeof(types[0]) && strcmp(types[i].word, word->text) != 0)
		i++;
	if (word->next || i == sizeof(types) / sizeof(types[0])) {
		record_fault(record, "\"%.64s\" is no kind of connection; expected local, host, hostssl, hostnossl, "
			     "hostgssenc or hostnogssenc", word->text);
		return false;
	}
	l->transports = types[i].transports;
	if (l->transports == HBA_TLS && tls == HBA_TLS_OFF)
		record_warn(record, "hostssl fits nobody while \"client_tls_sslmode\" is disable");
	return true;
}

/* ---- databases and users ---- */

static bool add_pattern(struct hba_names *names, struct record *record, const char *text)
{
	struct hba_pattern *node = arena_take(record->reader->arena, sizeof(*node));
	char why[160];

	if (!node) {
		record_no_memory(record);
		return false;
	}
	node->pattern = pattern_new(text, why, sizeof(why));
	node->next = names->patterns;
	names->patterns = node;
	if (!node->pattern)
		record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s", text, why);
	return node->pattern;
}

static bool add_name(struct hba_names *names, struct record *record, const struct record_word *word, bool is_database)
{
	if (record_is_keyword(word, "all")) {
		names->all = true;
	} else if (is_database && record_is_keyword(word, "sameuser")) {
		names->same_user = true;
	} else if (is_database && record_is_keyword(word, "replication")) {
		names->replication = true;
	} else if (is_database && (record_is_keyword(word, "samerole") || record_is_keyword(word, "samegroup"))) {
		record_fault(record, "\"%s\" is not supported: the pooler does not know the roles of a server", word->text);
	} else if (!is_database && !word->is_quoted && word->text[0] == '+') {
		record_fault(record, "\"%.64s\" is not supported: the pooler does not know who is a member of a role; list "
			     "the users, or put them into a file and write @FILE", word->text);
	} else if (word->text[0] == '/') {
		add_pattern(names, record, word->text + 1);
	} else if (!index_put(&names->exact, record->reader->arena, word->text, names)) {
		record_no_memory(record);
	}
	return !record->is_faulty;
}

static bool read_names(struct hba_names *names, struct record *record, bool is_database)
{
	const struct record_word *word = record_field(record);

	if (!word)
		record_fault(record, "the line ends before the %s", is_database ? "databases" : "users");
	while (word && add_name(names, record, word, is_database))
		word = word->next;
	return !record->is_faulty;
}

/* ---- the address ---- */

/* The only word of a field; NULL: the record is faulty. */
static const struct record_word *single(struct record *record, const char *what)
{
	const struct record_word *word = record_field(record);

	if (!word)
		record_fault(record, "the line ends before the %s", what);
	else if (word->next)
		record_fault(record, "\"%.64s\" is followed by a comma, but only one %s is accepted", word->text, what);
	return record->is_faulty ? NULL : word;
}

static bool read_address(struct hba_line *l, struct record *record)
{
	const struct record_word *word = single(record, "address"), *mask = NULL;
	const char *why;

	if (!word)
		return false;
	if (record_is_keyword(word, "all")) {
		l->address.kind = HBA_ADDRESS_ALL;
		return true;
	}
	if (record_is_keyword(word, "samehost") || record_is_keyword(word, "samenet")) {
		l->address.kind = strcmp(word->text, "samehost") == 0 ? HBA_ADDRESS_SAME_HOST : HBA_ADDRESS_SAME_NET;
		return true;
	}
	/* first by itself: behind a host name stands a method and no mask */
	why = hba_address_read(&l->address, word->text, NULL);
	if (why && l->address.size > 0 && hba_address_is_bare(word->text)) {
		mask = single(record, "mask");
		if (!mask)
			return false;
		why = hba_address_read(&l->address, word->text, mask->text);
	}
	if (why)
		record_fault(record, "\"%.64s\" %s", word->text, why);
	return !why;
}

/* ---- the method ---- */

static const struct {
	const char *word;
	enum auth_type method;
} methods[] = {
	{ "trust", AUTH_TRUST }, { "reject", AUTH_REJECT }, { "md5", AUTH_MD5 }, { "scram-sha-256", AUTH_SCRAM },
	{ "password", AUTH_PLAIN }, { "plain", AUTH_PLAIN }, { "cert", AUTH_CERT }, { "peer", AUTH_PEER }, { "ldap", AUTH_LDAP },
	{ "pam", AUTH_PAM },
};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

const char *hba_method_name(enum auth_type method)
{
	for (size_t i = 0; i < METHODS; i++)
		if (methods[i].method == method)
			return methods[i].word;
	return "";
}

static void warn_of_method(const struct hba_line *l, struct record *record)
{
	const char *lacks = check_method_lacks(l->rule.method);

	/* no fault of the line: without it, a later one could hold that asks for less */
	if (lacks)
		record_warn(record, "%s lets nobody in: this pgweir was built without %s", hba_method_name(l->rule.method), lacks);
	if (l->rule.method == AUTH_PEER && l->transports != HBA_LOCAL)
		record_warn(record, "peer lets nobody in but over a Unix socket");
	if (l->rule.method == AUTH_CERT && !(l->transports & HBA_TLS))
		record_warn(record, "cert lets nobody in without TLS");
}

static bool read_method(struct hba_line *l, struct record *record)
{
	static const char foreign[] = "gss, sspi, ident, radius, bsd, oauth, krb5, crypt";
	const struct record_word *word = single(record, "method");
	size_t i = 0;

	if (!word)
		return false;
	while (i < METHODS && strcmp(methods[i].word, word->text) != 0)
		i++;
	if (i < METHODS) {
		l->rule.method = methods[i].method;
		if (l->transports)
			warn_of_method(l, record);
		return true;
	}
	/* what PostgreSQL made of `ident` on a local line since 9.1 */
	if (l->transports == HBA_LOCAL && strcmp(word->text, "ident") == 0) {
		l->rule.method = AUTH_PEER;
		return true;
	}
	if (!l->transports && text_list_has(foreign, word->text, false)) {
		l->rule.method = AUTH_REJECT;
		return true;
	}
	if (text_list_has(foreign, word->text, false))
		record_fault(record, "the method \"%s\" is not supported", word->text);
	else
		record_fault(record, "\"%.64s\" is no method; expected trust, reject, md5, scram-sha-256, password, cert, peer, "
			     "ldap or pam", word->text);
	return false;
}

/* ---- options ---- */

/* False, when the option is not one of those that any method has; the record is then as it was. */
static bool take_common(struct hba_line *l, struct record *record, const char *name, const char *value)
{
	enum auth_type method = l->rule.method;

	if (strcmp(name, "map") == 0 && (method == AUTH_CERT || method == AUTH_PEER)) {
		l->rule.map = *value ? value : NULL;
		return true;
	}
	if (strcmp(name, "clientname") == 0 && strcmp(value, "CN") == 0)
		return true;
	if (strcmp(name, "clientcert") != 0)
		return false;
	if (l->transports & ~(unsigned)HBA_TLS)
		record_fault(record, "\"clientcert\" can only stand on a hostssl line");
	else if (strcmp(value, "verify-ca") == 0 || strcmp(value, "1") == 0)
		l->rule.certificate = HBA_CERTIFICATE_VALID;
	else if (strcmp(value, "verify-full") == 0)
		l->rule.certificate = HBA_CERTIFICATE_OF_USER;
	else if (strcmp(value, "no-verify") != 0 && strcmp(value, "0") != 0)
		record_fault(record, "\"clientcert\" must be verify-ca or verify-full");
	return true;
}

static bool take_pam(struct hba_line *l, struct record *record, const char *name, const char *value)
{
	if (strcmp(name, "pamservice") == 0) {
		l->rule.pam_service = value;
		return true;
	}
	if (strcmp(name, "pam_use_hostname") != 0)
		return false;
	if (strcmp(value, "1") == 0)
		record_warn(record, "\"pam_use_hostname\" has no effect: PAM gets the address");
	return true;
}

static void take_option(struct hba_line *l, struct record *record, struct ldap_options *ldap, const char *text)
{
	size_t size = strcspn(text, "=");
	char *name = arena_copy(record->reader->arena, text, size), why[256];
	const char *value = text + size + 1;

	if (!name) {
		record_no_memory(record);
		return;
	}
	if (text[size] == '\0') {
		record_fault(record, "an option behind the method has no \"=\"; expected NAME=VALUE");
		return;
	}
	if (take_common(l, record, name, value) || (l->rule.method == AUTH_PAM && take_pam(l, record, name, value)))
		return;
	if (!ldap)
		record_fault(record, "\"%.64s\" is no option of %s", name, hba_method_name(l->rule.method));
	else if (!ldap_options_take(ldap, name, value, record->reader->arena, why, sizeof(why)))
		record_fault(record, "%s", why);
}

static bool read_options(struct hba_line *l, struct record *record)
{
	struct ldap_options *ldap = NULL;
	const struct record_word *word;
	char why[256];

	if (l->rule.method == AUTH_LDAP) {
		ldap = arena_take(record->reader->arena, sizeof(*ldap));
		if (!ldap) {
			record_no_memory(record);
			return false;
		}
		ldap_options_init(ldap);
	}
	while ((word = record_option(record)))
		take_option(l, record, ldap, word->text);
	if (!record->is_faulty && ldap && !ldap_options_check(ldap, why, sizeof(why)))
		record_fault(record, "%s", why);
	l->rule.ldap = ldap;
	return !record->is_faulty;
}

/* ---- the line ---- */

bool hba_line_read(struct hba_line *l, struct record *record, enum hba_tls tls)
{
	l->rule.file = record->file;
	l->rule.line = record->line;
	if (!read_type(l, record, tls) || !read_names(&l->databases, record, true) || !read_names(&l->users, record, false) ||
	    (l->transports != HBA_LOCAL && !read_address(l, record)) || !read_method(l, record) ||
	    (l->transports && !read_options(l, record)))
		return false;
	if (tls == HBA_TLS_ON && (l->rule.method == AUTH_CERT || l->rule.certificate != HBA_CERTIFICATE_NONE))
		record_warn(record, "lets nobody in: without \"client_tls_ca_file\", clients are not asked for certificates");
	return true;
}

static void clear_names(struct hba_names *names)
{
	for (struct hba_pattern *node = names->patterns; node; node = node->next)
		pattern_free(&node->pattern);
	index_clear(&names->exact);
}

void hba_line_clear(struct hba_line *l)
{
	clear_names(&l->databases);
	clear_names(&l->users);
}
