#ifndef CONF_STORAGE_H
#define CONF_STORAGE_H

#include "conf/conf.h"
#include "conf/index.h"

/* What a snapshot consists of; for the makers of snapshots (conf.c, load.c) only. */
struct conf_storage {
	struct arena *arena;
	struct index databases, users;
};

#endif
