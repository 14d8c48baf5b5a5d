#ifndef CONF_STORAGE_H
#define CONF_STORAGE_H

#include "conf/conf.h"
#include "conf/index.h"

/* The storage of a snapshot, for the files that create snapshots (conf.c, load.c) only. */
struct conf_storage {
	struct arena *arena;
	struct index databases, users;
};

#endif
