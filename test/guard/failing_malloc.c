/*
 * Preloaded: allocations that fail on demand of the test. The file $FAILING_MALLOC is shared with the test, which may write at any time
 *
 * - first, last: while armed, the allocations with these numbers fail, counted from 1
 * - armed: 1: counting; otherwise all allocations succeed uncounted
 *
 * and read the number of allocations (`asked`), the number of failures, and the place of the first failure. All allocations count: of pgweir,
 * libevent, OpenSSL, c-ares and the C library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define FRAMES 24

static struct control {
	volatile uint64_t armed, first, last, asked, failed, frames;
	uint64_t frame[FRAMES];
} *control;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);

/* dlsym gives an object pointer, and C has no cast from there. */
static void find(const char *name, void *where)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	memcpy(where, &symbol, sizeof symbol);
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAILING_MALLOC");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (memory != MAP_FAILED)
		control = memory;
}

/* backtrace(3) would load a library first, which takes memory. */
static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *unused)
{
	(void)unused;
	if (control->frames >= FRAMES)
		return _URC_END_OF_STACK;
	control->frame[control->frames++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static int is_denied(void)
{
	uint64_t number;

	if (!control || !control->armed)
		return 0;
	number = ++control->asked;
	if (number < control->first || number > control->last)
		return 0;
	if (control->failed++ == 0)
		_Unwind_Backtrace(note_frame, NULL);
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	if (!real_malloc)
		find("malloc", &real_malloc);
	return is_denied() ? NULL : real_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	if (!real_calloc)
		find("calloc", &real_calloc);
	return is_denied() ? NULL : real_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	if (!real_realloc)
		find("realloc", &real_realloc);
	return is_denied() ? NULL : real_realloc(old, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	if (!real_posix_memalign)
		find("posix_memalign", &real_posix_memalign);
	return is_denied() ? ENOMEM : real_posix_memalign(memory, alignment, size);
}

/* A sanitizer has its own strdup, which would bypass the functions above. */
char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	char *copy = malloc(size + 1);

	if (!copy)
		return NULL;
	copy[size] = '\0';
	return memcpy(copy, text, size);
}
