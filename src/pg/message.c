/*
 * The rows of include/tbl/message.tbl, found by their type byte.
 *
 * One array per direction with a slot for every byte a peer could send, so the relay's first question about a message is one index, and
 * a byte without a row (its slot has no name and no phases) is a message that does not exist. The third array has a row of answers for
 * each entry of a ledger and each stage of its answer.
 */
#include "pg/message.h"

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) \
	[type] = { name, type, phases, look, LEDGER_##owes, TAKEN_BY_##taken_by },
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
const struct pg_client_message pg_client_messages[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) [type] = UNREAD_##unread,
const uint8_t pg_client_unread[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread)
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by) [type] = { name, type, phases, whole, TAKEN_AS_##taken_by },
const struct pg_server_message pg_server_messages[256] = {
#include "tbl/message.tbl"
};
#undef SERVER_MESSAGE
#undef ANSWER

#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does) [STAGE_##at][LEDGER_##to][PGS_##id] = LEDGER_##does,
const uint8_t pg_answers[STAGES][LEDGER_NOTHING + 1][256] = {
#include "tbl/message.tbl"
};
