#ifndef TEMPFILE_H
#define TEMPFILE_H

/*
 * Files for unit tests. Each test program has one directory, which is created at the first use; temp_cleanup, registered with atexit, removes the
 * directory with its files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMP_MOST 32

static char temp_root[64];
static char temp_names[TEMP_MOST][128];
static int temp_count;

static void temp_cleanup(void)
{
	for (int i = 0; i < temp_count; i++)
		unlink(temp_names[i]);
	rmdir(temp_root);
}

/* Returns the path of `name` in the directory. Valid until the program ends. */
static const char *temp_path(const char *name)
{
	char path[sizeof(temp_names[0])];

	if (!temp_root[0]) {
		strcpy(temp_root, "/tmp/pgweir-unit-XXXXXX");
		if (!mkdtemp(temp_root))
			abort();
		atexit(temp_cleanup);
	}
	snprintf(path, sizeof(path), "%s/%s", temp_root, name);
	for (int i = 0; i < temp_count; i++) {
		if (strcmp(temp_names[i], path) == 0)
			return temp_names[i];
	}
	if (temp_count == TEMP_MOST)
		abort();
	return strcpy(temp_names[temp_count++], path);
}

/* Overwrites the file in place. Returns its path. */
static const char *temp_write_bytes(const char *name, const void *bytes, size_t size)
{
	const char *path = temp_path(name);
	FILE *file = fopen(path, "w");

	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
		abort();
	return path;
}

static inline const char *temp_write(const char *name, const char *text)
{
	return temp_write_bytes(name, text, strlen(text));
}

#endif
