/*
 * The world around a fuzz target: see sandbox.h.
 *
 * Files are in memory: open() returns a memfd with the content, so that code that reads a descriptor works as with a file; OpenSSL, which opens files
 * by itself, gets a name of the memfd. Other files do not exist, so no input reaches the machine's files. Outside of an input all calls go to the C
 * library, because the fuzzer itself is linked with the same names.
 */
/* RAND_METHOD is the one way to give OpenSSL other randomness that works in each of its versions 3. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "sandbox.h"

#include "base/log.h"
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MOST 16
#define NAME_MOST 64

struct file {
	char name[NAME_MOST];
	uint8_t *data;
	size_t size;
};

static struct {
	bool is_on;
	usec_t now;
	uint64_t random;		/* pgweir's own */
	uint64_t of_library[2];		/* OpenSSL's, for pgweir and for the target */
	bool draws_apart;
	struct file files[FILES_MOST];
	int file_count;
} box;

/* ---- life ---- */

void sandbox_rewind(void)
{
	box.random = 1;
	box.of_library[0] = 2;
	box.of_library[1] = 3;
}

static const RAND_METHOD library_method;

void sandbox_begin(void)
{
	static bool is_quiet;

	if (!is_quiet) {
		/* every line is made and written, to /dev/null, unless FUZZ_LOG is set */
		bool is_wanted = getenv("FUZZ_LOG");

		log_configure(&(struct log_config){ .file = is_wanted ? NULL : "/dev/null", .quiet = !is_wanted, .verbose = 2 });
		is_quiet = true;
		FUZZ_CHECK(RAND_set_rand_method(&library_method) == 1);
	}
	box.now = 1000 * USEC;
	sandbox_rewind();
	box.is_on = true;
}

void sandbox_end(void)
{
	box.is_on = box.draws_apart = false;
	for (int i = 0; i < box.file_count; i++)
		free(box.files[i].data);
	box.file_count = 0;
}

void sandbox_sleep(usec_t time)
{
	box.now += time;
}

usec_t sandbox_now(void)
{
	return box.now;
}

/* ---- clock and randomness ---- */

usec_t __real_clock_monotonic(void);
usec_t __wrap_clock_monotonic(void);
usec_t __wrap_clock_monotonic(void)
{
	return box.is_on ? box.now : __real_clock_monotonic();
}

usec_t __real_clock_wall(void);
usec_t __wrap_clock_wall(void);
usec_t __wrap_clock_wall(void)
{
	return box.is_on ? box.now + 1600000000 * USEC : __real_clock_wall();
}

static uint8_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint8_t)(*state >> 56);
}

int __real_RAND_bytes(unsigned char *to, int size);
int __wrap_RAND_bytes(unsigned char *to, int size);
int __wrap_RAND_bytes(unsigned char *to, int size)
{
	if (!box.is_on)
		return __real_RAND_bytes(to, size);
	for (int i = 0; i < size; i++)
		to[i] = next_random(&box.random);
	return 1;
}

static int library_bytes(unsigned char *to, int size)
{
	if (!box.is_on)
		return RAND_OpenSSL()->bytes(to, size);
	for (int i = 0; i < size; i++)
		to[i] = next_random(&box.of_library[box.draws_apart]);
	return 1;
}

static int library_is_ready(void)
{
	return 1;
}

static const RAND_METHOD library_method = { .bytes = library_bytes, .pseudorand = library_bytes, .status = library_is_ready };

void sandbox_draw_apart(bool on)
{
	box.draws_apart = on;
}

void sandbox_foresee(uint8_t *to, size_t size)
{
	uint64_t state = box.random;

	for (size_t i = 0; i < size; i++)
		to[i] = next_random(&state);
}

/* ---- files ---- */

void sandbox_file(const char *name, const void *data, size_t size)
{
	struct file *file = NULL;

	for (int i = 0; i < box.file_count; i++)
		if (strcmp(box.files[i].name, name) == 0)
			file = &box.files[i];
	if (!file && box.file_count < FILES_MOST) {
		file = &box.files[box.file_count++];
		snprintf(file->name, sizeof(file->name), "%s", name);
		file->data = NULL;
	}
	if (!file)
		return;
	free(file->data);
	file->data = fuzz_copy(data, size);
	file->size = size;
}

/* The line that begins the next file, or the end. */
static const char *next_heading(const char *at, const char *end)
{
	while (at < end && !(end - at > 3 && memcmp(at, "== ", 3) == 0)) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : end;
	}
	return at;
}

void sandbox_files(const char *text, size_t size)
{
	const char *end = text + size, *at = text, *next = size > 0 ? next_heading(text, end) : end;

	sandbox_file(SANDBOX_MAIN, at, (size_t)(next - at));
	for (at = next; at < end; at = next) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at)), *content = line_end ? line_end + 1 : end;
		char name[NAME_MOST];

		snprintf(name, sizeof(name), "%.*s", (int)((line_end ? line_end : end) - at - 3), at + 3);
		next = next_heading(content, end);
		sandbox_file(name, content, (size_t)(next - content));
	}
}

static const struct file *find(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (int i = 0; i < box.file_count; i++)
		if (strcmp(box.files[i].name, name) == 0)
			return &box.files[i];
	errno = ENOENT;
	return NULL;
}

static int open_file(const char *path)
{
	const struct file *file = find(path);
	int fd;

	if (!file)
		return -1;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || (file->size > 0 && write(fd, file->data, file->size) != (ssize_t)file->size) || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

/* A file that the library opens by its name, which is valid until close_for_library(). */
struct library_file {
	int fd;
	char name[NAME_MOST];
};

static const char *name_for_library(struct library_file *file, const char *path)
{
	file->fd = -1;
	if (!box.is_on)
		return path;
	file->fd = open_file(path);
	snprintf(file->name, NAME_MOST, "/proc/self/fd/%d", file->fd);
	return file->name;
}

static void close_for_library(const struct library_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
}

#define WRAP_READER(reader) \
	int __real_##reader(SSL_CTX *ssl, const char *path); \
	int __wrap_##reader(SSL_CTX *ssl, const char *path); \
	int __wrap_##reader(SSL_CTX *ssl, const char *path) \
	{ \
		struct library_file file; \
		int done = __real_##reader(ssl, name_for_library(&file, path)); \
\
		close_for_library(&file); \
		return done; \
	}
WRAP_READER(SSL_CTX_use_certificate_chain_file)
WRAP_READER(SSL_CTX_load_verify_file)

int __real_SSL_CTX_use_PrivateKey_file(SSL_CTX *ssl, const char *path, int type);
int __wrap_SSL_CTX_use_PrivateKey_file(SSL_CTX *ssl, const char *path, int type);
int __wrap_SSL_CTX_use_PrivateKey_file(SSL_CTX *ssl, const char *path, int type)
{
	struct library_file file;
	int done = __real_SSL_CTX_use_PrivateKey_file(ssl, name_for_library(&file, path), type);

	close_for_library(&file);
	return done;
}

STACK_OF(X509_NAME) *__real_SSL_load_client_CA_file(const char *path);
STACK_OF(X509_NAME) *__wrap_SSL_load_client_CA_file(const char *path);
STACK_OF(X509_NAME) *__wrap_SSL_load_client_CA_file(const char *path)
{
	struct library_file file;
	STACK_OF(X509_NAME) *names = __real_SSL_load_client_CA_file(name_for_library(&file, path));

	close_for_library(&file);
	return names;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	return box.is_on ? open_file(path) : __real_open(path, flags, mode);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
	int fd;

	/* a write is the fuzzer's: it saves a failing input */
	if (!box.is_on || *mode != 'r')
		return __real_fopen(path, mode);
	fd = open_file(path);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	const struct file *file;

	if (!box.is_on)
		return __real_stat(path, st);
	file = find(path);
	if (!file)
		return -1;
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG | 0600;
	st->st_ino = (ino_t)(file - box.files) + 1;
	st->st_size = (off_t)file->size;
	return 0;
}

int __real_faccessat(int fd, const char *path, int mode, int flags);
int __wrap_faccessat(int fd, const char *path, int mode, int flags);
int __wrap_faccessat(int fd, const char *path, int mode, int flags)
{
	if (!box.is_on)
		return __real_faccessat(fd, path, mode, flags);
	return find(path) ? 0 : -1;
}

typedef int filter_entry(const struct dirent *);
typedef int compare_entries(const struct dirent **, const struct dirent **);

/* Every directory is the single directory that contains all files. */
int __wrap_scandir(const char *path, struct dirent ***list, filter_entry *filter, compare_entries *compare);
int __wrap_scandir(const char *path, struct dirent ***list, filter_entry *filter, compare_entries *compare)
{
	struct dirent **all = malloc(FILES_MOST * sizeof(struct dirent *));
	int count = 0;

	if (!all || !*path)
		abort();
	for (int i = 0; i < box.file_count; i++) {
		struct dirent *entry = calloc(1, sizeof(*entry));

		if (!entry)
			abort();
		memcpy(entry->d_name, box.files[i].name, NAME_MOST);
		if (filter(entry))
			all[count++] = entry;
		else
			free(entry);
	}
	qsort(all, (size_t)count, sizeof(struct dirent *), (int (*)(const void *, const void *))compare);
	*list = all;
	return count;
}
