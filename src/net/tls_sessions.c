/*
 * Resumption on the connecting side. A TLS 1.3 server sends its tickets after the handshake, so a connection cannot be asked
 * for "its" session at a fixed time: OpenSSL calls back for each ticket, and the last ticket is stored in a slot of the context
 * under the server's name.
 *
 * Resumption does not verify the certificate. This is safe, because a slot belongs to one context (the same CA, certificate and
 * protocols) and to one name, and sessions with and without a check of the name are stored separately. A slot lives as long as
 * the SSL_CTX, which every SSL references, so a connection may point to its slot.
 */
#include "net/tls_sessions.h"

#include <string.h>

#include "base/list.h"
#include "base/mem.h"

/* Names come from the configuration. Further names get full handshakes. */
#define SLOTS_MOST 256

struct slot {
	struct list node;
	SSL_SESSION *session;
	bool verify_name;
	char name[];
};

struct tls_sessions {
	struct list slots;
	int count;
};

static int context_index = -1, connection_index = -1;

static void sessions_free(void *parent, void *sessions_memory, CRYPTO_EX_DATA *data, int index, long argl, void *argp)
{
	struct tls_sessions *sessions = sessions_memory;

	(void)parent, (void)data, (void)index, (void)argl, (void)argp;
	if (!sessions)
		return;
	LIST_EACH_SAFE(node, &sessions->slots) {
		struct slot *slot = LIST_OBJECT(node, struct slot, node);

		SSL_SESSION_free(slot->session);
		mem_free(slot);
	}
	mem_free(sessions);
}

/* Returns 1: takes the reference. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct slot *slot = SSL_get_ex_data(ssl, connection_index);

	if (!slot)
		return 0;
	SSL_SESSION_free(slot->session);
	slot->session = session;
	return 1;
}

bool tls_sessions_attach(SSL_CTX *ssl)
{
	struct tls_sessions *sessions;

	if (context_index < 0)
		context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, sessions_free);
	if (connection_index < 0)
		connection_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	if (context_index < 0 || connection_index < 0)
		return false;
	sessions = mem_try(sizeof *sessions);
	if (!sessions)
		return false;
	list_init(&sessions->slots);
	if (!SSL_CTX_set_ex_data(ssl, context_index, sessions)) {
		mem_free(sessions);
		return false;
	}
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ssl, on_new_session);
	return true;
}

static struct slot *slot_of(struct tls_sessions *sessions, const char *name, bool verify_name)
{
	struct slot *slot;

	LIST_EACH(node, &sessions->slots) {
		slot = LIST_OBJECT(node, struct slot, node);
		if (slot->verify_name == verify_name && strcmp(slot->name, name) == 0)
			return slot;
	}
	if (sessions->count >= SLOTS_MOST)
		return NULL;
	slot = mem_try(sizeof *slot + strlen(name) + 1);
	if (!slot)
		return NULL;
	strcpy(slot->name, name);
	slot->verify_name = verify_name;
	list_append(&sessions->slots, &slot->node);
	sessions->count++;
	return slot;
}

void tls_sessions_use(SSL *ssl, const char *name, bool verify_name)
{
	struct tls_sessions *sessions = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index);
	struct slot *slot = sessions ? slot_of(sessions, name, verify_name) : NULL;

	if (!slot)
		return;
	SSL_set_ex_data(ssl, connection_index, slot);
	if (slot->session && SSL_SESSION_is_resumable(slot->session))
		SSL_set_session(ssl, slot->session);
}
