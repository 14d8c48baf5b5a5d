/*
 * Serialisation of questions and answers.
 *
 * question = ticket method user (pam / ldap / scram) password       each number in network byte order
 * pam      = service remote
 * ldap     = timeout port scope ldaps starttls servers prefix suffix base_dn bind_dn bind_password
 *            search_attribute search_filter
 * scram    = iterations size salt
 * answer   = ticket verdict ( %x00 / %x01 salted ) why
 * text     = %x01 *( any but NUL ) NUL / %x00                        the second is NULL
 *
 * The password is last, because a growing buffer leaves copies of its old contents. After a fault, reading continues with empty
 * values; `bad` is checked once, at the end.
 */
#include "verify/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *verify_method_name(enum verify_method method)
{
	static const char *const names[] = { [VERIFY_PAM] = "PAM", [VERIFY_LDAP] = "LDAP", [VERIFY_SCRAM] = "SCRAM" };

	return names[method];
}

void verify_answer_set(struct verify_answer *answer, enum verify_verdict verdict, const char *format, ...)
{
	va_list args;

	*answer = (struct verify_answer){ .verdict = verdict };
	va_start(args, format);
	vsnprintf(answer->why, sizeof(answer->why), format, args);
	va_end(args);
}

/* ---- writing ---- */

static void put_u64(struct bytes *to, uint64_t value)
{
	bytes_append_u32(to, (uint32_t)(value >> 32));
	bytes_append_u32(to, (uint32_t)value);
}

static void put_text(struct bytes *to, const char *text)
{
	bytes_append_u8(to, text != NULL);
	if (text)
		bytes_append_string(to, text);
}

static void put_ldap(struct bytes *to, const struct verify_question *q)
{
	const struct ldap_options *o = q->ldap;

	put_u64(to, (uint64_t)q->ldap_timeout);
	bytes_append_u16(to, (uint16_t)o->port);
	bytes_append_u8(to, (uint8_t)o->scope);
	bytes_append_u8(to, o->ldaps);
	bytes_append_u8(to, o->starttls);
	put_text(to, o->servers);
	put_text(to, o->prefix);
	put_text(to, o->suffix);
	put_text(to, o->base_dn);
	put_text(to, o->bind_dn);
	put_text(to, o->bind_password);
	put_text(to, o->search_attribute);
	put_text(to, o->search_filter);
}

bool verify_question_write(struct bytes *to, uint64_t ticket, const struct verify_question *q)
{
	put_u64(to, ticket);
	bytes_append_u8(to, (uint8_t)q->method);
	put_text(to, q->user);
	switch (q->method) {
	case VERIFY_PAM:
		put_text(to, q->service);
		put_text(to, q->remote);
		break;
	case VERIFY_LDAP:
		put_ldap(to, q);
		break;
	case VERIFY_SCRAM:
		bytes_append_u32(to, q->iterations);
		bytes_append_u8(to, (uint8_t)q->salt_size);
		bytes_append(to, q->salt, q->salt_size);
		break;
	}
	put_text(to, q->password);
	return bytes_size(to) <= VERIFY_QUESTION_MOST;
}

void verify_answer_write(struct bytes *to, uint64_t ticket, const struct verify_answer *answer)
{
	put_u64(to, ticket);
	bytes_append_u8(to, (uint8_t)answer->verdict);
	bytes_append_u8(to, answer->has_key);
	if (answer->has_key)
		bytes_append(to, answer->salted, sizeof(answer->salted));
	put_text(to, answer->why);
}

/* ---- reading ---- */

struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t get_number(struct reader *r, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->at) < size) {
		r->bad = true;
		return 0;
	}
	while (size-- > 0)
		value = value << 8 | *r->at++;
	return value;
}

/* NULL: too few bytes. */
static const uint8_t *get_bytes(struct reader *r, size_t size)
{
	const uint8_t *bytes = r->at;

	if ((size_t)(r->end - r->at) < size) {
		r->bad = true;
		return NULL;
	}
	r->at += size;
	return bytes;
}

static const char *get_text(struct reader *r)
{
	const char *text = (const char *)r->at + 1;
	const uint8_t *end;

	switch (get_number(r, 1)) {
	case 0:
		return NULL;
	case 1:
		end = memchr(r->at, 0, (size_t)(r->end - r->at));
		if (end) {
			r->at = end + 1;
			return text;
		}
	}
	r->bad = true;
	return NULL;
}

static void get_ldap(struct reader *r, struct verify_question *q, struct ldap_options *o)
{
	uint64_t timeout = get_number(r, 8), scope;

	*o = (struct ldap_options){ .port = 0 };
	o->port = (int)get_number(r, 2);
	scope = get_number(r, 1);
	o->ldaps = get_number(r, 1) != 0;
	o->starttls = get_number(r, 1) != 0;
	o->servers = get_text(r);
	o->prefix = get_text(r);
	o->suffix = get_text(r);
	o->base_dn = get_text(r);
	o->bind_dn = get_text(r);
	o->bind_password = get_text(r);
	o->search_attribute = get_text(r);
	o->search_filter = get_text(r);
	r->bad |= scope > LDAP_SEARCH_ONE || timeout > INT64_MAX || !o->servers;
	o->scope = (enum ldap_search_scope)scope;
	q->ldap_timeout = (usec_t)timeout;
	q->ldap = o;
}

static void get_scram(struct reader *r, struct verify_question *q)
{
	q->iterations = (uint32_t)get_number(r, 4);
	q->salt_size = get_number(r, 1);
	q->salt = get_bytes(r, q->salt_size);
	r->bad |= q->iterations < 1 || q->iterations > SCRAM_ITERATIONS_MAX || q->salt_size < 1 || q->salt_size > SCRAM_SALT_MAX;
}

bool verify_question_read(const uint8_t *data, size_t size, uint64_t *ticket, struct verify_question *q, struct ldap_options *ldap)
{
	struct reader r = { data, data + size, false };
	uint64_t method;

	*q = (struct verify_question){ .method = VERIFY_PAM };
	*ticket = get_number(&r, 8);
	method = get_number(&r, 1);
	q->user = get_text(&r);
	switch (method) {
	case VERIFY_PAM:
		q->service = get_text(&r);
		q->remote = get_text(&r);
		r.bad |= !q->service;
		break;
	case VERIFY_LDAP:
		get_ldap(&r, q, ldap);
		break;
	case VERIFY_SCRAM:
		get_scram(&r, q);
		break;
	default:
		return false;
	}
	q->method = (enum verify_method)method;
	q->password = get_text(&r);
	return !r.bad && r.at == r.end && q->user && *q->user && q->password && *q->password;
}

bool verify_answer_read(const uint8_t *data, size_t size, uint64_t *ticket, struct verify_answer *answer)
{
	struct reader r = { data, data + size, false };
	const uint8_t *salted = NULL;
	uint64_t verdict, keys;
	const char *why;

	*ticket = get_number(&r, 8);
	verdict = get_number(&r, 1);
	keys = get_number(&r, 1);
	if (keys == 1)
		salted = get_bytes(&r, SCRAM_KEY);
	why = get_text(&r);
	if (r.bad || r.at != r.end || verdict > VERIFIED_UNKNOWN || keys > (verdict == VERIFIED_YES) || !why)
		return false;
	verify_answer_set(answer, (enum verify_verdict)verdict, "%s", why);
	answer->has_key = salted != NULL;
	if (salted)
		memcpy(answer->salted, salted, SCRAM_KEY);
	return true;
}
