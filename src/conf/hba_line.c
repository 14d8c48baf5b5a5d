/*
 * A line of an HBA file in the syntax of PostgreSQL 16:
 *
 * local databases users method [options]
 * host databases users ip/length method [options]
 * host databases users ip mask method [options]
 *
 * and hostssl, hostnossl, hostgssenc and hostnogssenc like host. GSSAPI encryption is not supported: a hostgssenc line is
 * checked and matches no client, and hostnogssenc is the same as host.
 *
 * A faulty line refuses every login that it could concern. If it were skipped, its clients would get the next line, and a
 * mistake in a `reject` line would admit them. The parts that could be parsed (type of connection, databases, users, address)
 * restrict the line; the other parts match everything. "host shop bob 10.0.0.0/33 reject" refuses bob in shop from any address,
 * and no other user, because with any correct address the line concerns only bob.
 *
 * A missing or extra field shifts the other fields: in "local all reject" the user seems to be called reject. Therefore
 * databases and users are used only if the next field, an address or a method, is valid; otherwise the line refuses every
 * connection of its type. The same holds for a line with an unclosed quote, because an earlier quote may be the wrong one. If
 * the type cannot be parsed, the line may be the rest of another line, and it refuses all connections.
 *
 * Valid lines that pgweir does not support refuse in the same way: keywords that need PostgreSQL's roles (+group, samerole,
 * samegroup), host names, and other methods. A supported line that can never admit a client (peer over TCP, cert without TLS)
 * is used with a warning.
 */
#include "conf/hba_parts.h"

#include "base/text.h"
#include "conf/check.h"
#include "conf/pattern.h"

#include <string.h>

/* ---- the first field ---- */

static bool read_type(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	static const struct {
		const char *word;
		unsigned transports;
	} types[] = {
		{ "local", TRANSPORT_LOCAL }, { "host", TRANSPORT_TLS | TRANSPORT_CLEAR }, { "hostssl", TRANSPORT_TLS }, { "hostnossl", TRANSPORT_CLEAR },
		{ "hostnogssenc", TRANSPORT_TLS | TRANSPORT_CLEAR }, { "hostgssenc", 0 },
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
	if (l->transports == TRANSPORT_TLS && tls == HBA_TLS_OFF)
		record_warn(record, "hostssl fits nobody while \"client_tls_sslmode\" is disable");
	return true;
}

/* ---- methods ---- */

static const struct {
	const char *word;
	enum auth_type method;
} methods[] = {
	{ "trust", AUTH_TRUST }, { "reject", AUTH_REJECT }, { "md5", AUTH_MD5 }, { "scram-sha-256", AUTH_SCRAM },
	{ "password", AUTH_PLAIN }, { "plain", AUTH_PLAIN }, { "cert", AUTH_CERT }, { "peer", AUTH_PEER },
	{ "ldap", AUTH_LDAP }, { "pam", AUTH_PAM },
};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

static const char foreign_methods[] = "gss, sspi, ident, radius, bsd, oauth, krb5, crypt";

/* Whether PostgreSQL or pgweir has such a method. */
static bool is_method(const char *word)
{
	for (size_t i = 0; i < METHODS; i++)
		if (strcmp(methods[i].word, word) == 0)
			return true;
	return text_list_has(foreign_methods, word, false);
}

/* ---- databases and users ---- */

/* Matches any database or user, and physical replication. */
static void fit_every_name(struct hba_names *names)
{
	names->all = names->replication = true;
}

static void add_pattern(struct hba_names *names, struct hba_record *record, const char *text)
{
	struct hba_pattern *node = arena_take(record->reader->arena, sizeof(*node));
	char why[160];

	if (!node) {
		record_no_memory(record);
		return;
	}
	node->pattern = pattern_new(text, why, sizeof(why));
	if (node->pattern) {
		node->next = names->patterns;
		names->patterns = node;
		return;
	}
	record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s", text, why);
	names->all = true;
}

/* An unsupported word makes the record faulty and matches every name, but not physical replication: only the keyword
   `replication` matches that. */
static void add_name(struct hba_names *names, struct hba_record *record, const struct record_word *word, bool is_database)
{
	if (word->is_unknown) {
		fit_every_name(names);
	} else if (record_is_keyword(word, "all")) {
		names->all = true;
	} else if (is_database && record_is_keyword(word, "sameuser")) {
		names->same_user = true;
	} else if (is_database && record_is_keyword(word, "replication")) {
		names->replication = true;
	} else if (is_database && (record_is_keyword(word, "samerole") || record_is_keyword(word, "samegroup"))) {
		record_fault(record, "\"%s\" is not supported: the pooler does not know the roles of a server", word->text);
		names->all = true;
	} else if (!is_database && !word->is_quoted && word->text[0] == '+') {
		record_fault(record, "\"%.64s\" is not supported: the pooler does not know who is a member of a role; list "
			     "the users, or put them into a file and write @FILE", word->text);
		names->all = true;
	} else if (word->text[0] == '/') {
		add_pattern(names, record, word->text + 1);
	} else if (!index_put(&names->exact, record->reader->arena, word->text, names)) {
		record_no_memory(record);
	}
}

/* Whether the word may belong to another field: an address or a method. */
static bool looks_misplaced(const struct record_word *word)
{
	struct hba_address address = { .size = 0 };

	hba_address_read(&address, word->text, NULL);
	return address.size > 0 || is_method(word->text) || record_is_keyword(word, "samehost") || record_is_keyword(word, "samenet");
}

/* Returns false if one of the names may belong to another field. If the line is faulty, it may. */
static bool read_names(struct hba_names *names, struct hba_record *record, bool is_database)
{
	const struct record_word *word = record_list(record);
	bool are_names = true;

	if (!word)
		record_fault(record, "the line ends before the %s", is_database ? "databases" : "users");
	/* after a trailing comma, names are missing */
	if (!word || record->is_cut)
		fit_every_name(names);
	for (; word; word = word->next) {
		add_name(names, record, word, is_database);
		are_names &= !looks_misplaced(word);
	}
	return are_names;
}

/* ---- fields with one word ---- */

/* Returns the only word of a field. NULL: the record is faulty. */
static const struct record_word *single(struct hba_record *record, const struct record_word *word, const char *what)
{
	if (!word)
		record_fault(record, "the line ends before the %s", what);
	else if (word->next)
		record_fault(record, "\"%.64s\" is followed by a comma, but only one %s is accepted", word->text, what);
	return word && !word->next && !word->is_unknown ? word : NULL;
}

/* ---- the address ---- */

/* Parses the address that begins with `word`. False: the record is faulty. */
static bool read_net(struct hba_address *address, struct hba_record *record, const struct record_word *word)
{
	const struct record_word *mask;
	/* without a mask first: the field after a host name is a method, not a mask */
	const char *why = hba_address_read(address, word->text, NULL);

	if (why && address->size > 0 && hba_address_is_bare(word->text)) {
		mask = single(record, record_field(record), "mask");
		if (!mask)
			return false;
		why = hba_address_read(address, word->text, mask->text);
	}
	if (why)
		record_fault(record, "\"%.64s\" %s", word->text, why);
	return !why;
}

/* Parses the address. False: it matches every address, because the record is faulty. *is_word: the field is one word. */
static bool read_address(struct hba_address *address, struct hba_record *record, bool *is_word)
{
	const struct record_word *first = record_list(record), *word = single(record, first, "address");

	*is_word = first && !first->next && !record->is_cut;
	if (word && !record->is_cut) {
		if (record_is_keyword(word, "all"))
			return true;
		if (record_is_keyword(word, "samehost") || record_is_keyword(word, "samenet")) {
			address->kind = strcmp(word->text, "samehost") == 0 ? HBA_ADDRESS_SAME_HOST : HBA_ADDRESS_SAME_NET;
			return true;
		}
		if (read_net(address, record, word))
			return true;
	} else if (first) {
		hba_address_read(address, first->text, NULL);
	}
	address->kind = HBA_ADDRESS_ALL;
	return false;
}

/* ---- the method ---- */

const char *hba_method_name(enum auth_type method)
{
	for (size_t i = 0; i < METHODS; i++)
		if (methods[i].method == method)
			return methods[i].word;
	return "";
}

static void warn_of_method(const struct hba_line *l, struct hba_record *record)
{
	const char *lacks = check_method_lacks(l->rule.method);

	/* the line stays in force: without it, a later line with a weaker method could apply */
	if (lacks)
		record_warn(record, "%s lets nobody in: this pgweir was built without %s", hba_method_name(l->rule.method), lacks);
	if (l->rule.method == AUTH_PEER && l->transports != TRANSPORT_LOCAL)
		record_warn(record, "peer lets nobody in but over a Unix socket");
	if (l->rule.method == AUTH_CERT && !(l->transports & TRANSPORT_TLS))
		record_warn(record, "cert lets nobody in without TLS");
}

/* Parses the method. False: `word` is NULL or not a supported method, and the record is faulty. */
static bool read_method(struct hba_line *l, struct hba_record *record, const struct record_word *word)
{
	size_t i = 0;

	if (!word)
		return false;
	while (i < METHODS && strcmp(methods[i].word, word->text) != 0)
		i++;
	if (i < METHODS) {
		l->rule.method = methods[i].method;
		return true;
	}
	/* since 9.1 PostgreSQL treats `ident` on a local line as peer */
	if (l->transports == TRANSPORT_LOCAL && strcmp(word->text, "ident") == 0) {
		l->rule.method = AUTH_PEER;
		return true;
	}
	if (!l->transports && text_list_has(foreign_methods, word->text, false)) {
		l->rule.method = AUTH_REJECT;
		return true;
	}
	if (text_list_has(foreign_methods, word->text, false))
		record_fault(record, "the method \"%s\" is not supported", word->text);
	else
		record_fault(record, "\"%.64s\" is no method; expected trust, reject, md5, scram-sha-256, password, cert, peer, "
			     "ldap or pam", word->text);
	return false;
}

/* ---- options ---- */

/* Parses an option that several methods have. False: another option; the record is unchanged. */
static bool take_common(struct hba_line *l, struct hba_record *record, const char *name, const char *value)
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
	if (l->transports & ~(unsigned)TRANSPORT_TLS)
		record_fault(record, "\"clientcert\" can only stand on a hostssl line");
	else if (strcmp(value, "verify-ca") == 0 || strcmp(value, "1") == 0)
		l->rule.certificate = HBA_CERTIFICATE_VALID;
	else if (strcmp(value, "verify-full") == 0)
		l->rule.certificate = HBA_CERTIFICATE_OF_USER;
	else if (strcmp(value, "no-verify") != 0 && strcmp(value, "0") != 0)
		record_fault(record, "\"clientcert\" must be verify-ca or verify-full");
	return true;
}

static bool take_pam(struct hba_line *l, struct hba_record *record, const char *name, const char *value)
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

static void take_option(struct hba_line *l, struct hba_record *record, struct ldap_options *ldap, const char *text)
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

static void read_options(struct hba_line *l, struct hba_record *record)
{
	struct ldap_options *ldap = NULL;
	const struct record_word *word;
	char why[256];

	if (l->rule.method == AUTH_LDAP) {
		ldap = arena_take(record->reader->arena, sizeof(*ldap));
		if (!ldap) {
			record_no_memory(record);
			return;
		}
		ldap_options_init(ldap);
	}
	while ((word = record_option(record)))
		take_option(l, record, ldap, word->text);
	if (!record->is_faulty && ldap && !ldap_options_check(ldap, why, sizeof(why)))
		record_fault(record, "%s", why);
	if (!record->is_faulty && ldap && ldap_options_lack(ldap))
		record_warn(record, "ldap lets nobody in: %s", ldap_options_lack(ldap));
	l->rule.ldap = ldap;
}

/* ---- the line ---- */

/* Whether `word`, in the place of the method, is or looks like a method, with only options after it. */
static bool check_method_place(struct hba_record *record, const struct record_word *word)
{
	if (!word || strchr(word->text, '='))
		return false;
	if (is_method(word->text))
		return true;
	while ((word = record_field(record)))
		if (!strchr(word->text, '='))
			return false;
	return true;
}

/* Whether a comma has a blank or the end of the line beside it: a list may then have been parsed as two fields. */
static bool has_loose_comma(const char *text)
{
	static const char blanks[] = " \t\r\v\f";
	bool in_quotes = false;

	for (const char *at = text; *at; at++) {
		in_quotes ^= *at == '"';
		if (*at == ',' && !in_quotes && (at == text || strchr(blanks, at[-1]) || strchr(blanks, at[1])))
			return true;
	}
	return false;
}

/* Parses the fields after the type. False: the record is faulty, and its databases and users may be other fields. */
static bool read_fields(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	const struct record_word *method;
	bool has_address, is_word = true, are_names;

	are_names = read_names(&l->databases, record, true);
	are_names &= read_names(&l->users, record, false);
	has_address = l->transports == TRANSPORT_LOCAL || read_address(&l->address, record, &is_word);
	method = single(record, record_field(record), "method");
	if (read_method(l, record, method) && !record->is_faulty && l->transports)
		read_options(l, record);
	if (!record->is_faulty && l->transports)
		warn_of_method(l, record);
	if (!record->is_faulty && tls == HBA_TLS_ON &&
	    (l->rule.method == AUTH_CERT || l->rule.certificate != HBA_CERTIFICATE_NONE))
		record_warn(record, "lets nobody in: without \"client_tls_ca_file\", clients are not asked for certificates");
	if (!record->is_faulty)
		return true;
	if (has_loose_comma(record->text))
		return false;
	/* A numeric address shows that the fields are in their places, unless it may be the mask of a host name, or is cut off.
	   A host name shows this only if a method follows; a list of host names may be a list of users. */
	if (!are_names || l->address.size > 0)
		return are_names && (has_address ? check_method_place(record, method) : !hba_address_may_be_mask(&l->address));
	return has_address ? check_method_place(record, method) : is_word && method && is_method(method->text);
}

static void fit_everything(struct hba_line *l, unsigned transports)
{
	l->transports = transports;
	l->address.kind = HBA_ADDRESS_ALL;
	fit_every_name(&l->databases);
	fit_every_name(&l->users);
}

bool hba_line_read(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	l->rule.file = record->file;
	l->rule.line = record->line;
	if (read_type(l, record, tls)) {
		if (!read_fields(l, record, tls) || record->is_unreadable)
			fit_everything(l, l->transports);
	} else if (record->is_faulty) {
		fit_everything(l, TRANSPORT_LOCAL | TRANSPORT_TLS | TRANSPORT_CLEAR);
	} else {
		return false;
	}
	l->rule.is_faulty = record->is_faulty;
	if (l->rule.is_faulty)
		l->rule.method = AUTH_REJECT;
	l->unknown = (struct hba_rule){
		.file = l->rule.file, .line = l->rule.line, .is_unknown = true, .is_faulty = l->rule.is_faulty, .method = AUTH_REJECT,
	};
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
