/*
 * The rows of include/tbl/message.tbl, found by their type byte.
 *
 * One array per direction with a slot for every byte a peer could send, so the
 * relay's first question about a message is one index, and a byte without a row
 * (its slot has no name) is a message that does not exist.
 */
#include "pg/message.h"

#include <stddef.h>

#define ROW(type, name, whole, look, extended) [type] = { type, name, whole, look, extended },
#define NO_ROW(type, name, whole, look, extended)

#define CLIENT_MESSAGE ROW
#define SERVER_MESSAGE NO_ROW
static const struct pg_message client_messages[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE

#define CLIENT_MESSAGE NO_ROW
#define SERVER_MESSAGE ROW
static const struct pg_message server_messages[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE

const struct pg_message *pg_client_message(uint8_t type)
{
	return client_messages[type].name ? &client_messages[type] : NULL;
}

const struct pg_message *pg_server_message(uint8_t type)
{
	return server_messages[type].name ? &server_messages[type] : NULL;
}
