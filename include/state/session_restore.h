#ifndef STATE_SESSION_RESTORE_H
#define STATE_SESSION_RESTORE_H

#include "conn/world.h"

/* The state of a client on its server. Promise: a server executes no message of a client before its
   session has the client's parameters and role, and no text that may read or change channels before
   it has the client's channels. See session_restore.c. */

/* Sets the parameters of the session to the client's values, and ends with session_restored().
   task_encoding precedes it if values must be read in the client's encoding. */
extern const struct server_task task_params, task_encoding;
/* LISTEN to the channels of the client. */
extern const struct server_task task_relisten;

/* Begins to give the server the missing state of its client. True: the server has everything.
   False: a task has begun, or the server has ended. `encoding_is_set`: client_encoding is the
   client's already. */
bool session_restore_begin(struct server *server, struct client *client, bool encoding_is_set);
/* The end of task_params; `failed`: the server has refused the values. Returns TASK_END_RESTORED,
   TASK_END_PARTED or TASK_END_NOTHING. */
enum task_end session_restored(struct server *server, bool failed);

/* The next message of the client may UNLISTEN or begin a transaction: the server LISTENs to the
   client's channels first (task_relisten). */
void session_restore_channels(struct server *server, struct client *client);

/* The client has been told the parameters `told`, and has the parameters `now`: sends
   ParameterStatus for each difference among `which` (a bit for each index of the table). False: the
   client has ended. */
bool session_tell(struct client *client, const struct params *told, const struct params *now,
		  uint64_t which);

#endif
