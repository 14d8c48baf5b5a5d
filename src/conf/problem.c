/*
 * The result of reading a configuration besides its values: its problems, and the files that it was
 * read from.
 *
 * All problems are collected, so that an operator can fix all of them before the next attempt. The
 * list is bounded, because a wrong file, such as an image, would give a problem for each line;
 * `errors` counts all errors.
 */
#include "conf/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PROBLEMS_MOST 500

static char *format_text(const char *before, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

static char *format_text(const char *before, const char *format, va_list args)
{
	size_t size = strlen(before);
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = length < 0 ? NULL : mem_try(size + (size_t)length + 1);
	if (!text)
		return NULL;
	memcpy(text, before, size);
	vsnprintf(text + size, (size_t)length + 1, format, args);
	return text;
}

/* Takes ownership of the text, which may be NULL. */
static void problem_keep(struct conf_problems *p, struct conf_problem item, const char *file,
			 char *text)
{
	struct conf_problem *items;

	if (!item.is_warning)
		p->errors++;
	items = p->count < PROBLEMS_MOST ? mem_resize(p->items, (p->count + 1) * sizeof(*items))
					 : NULL;
	if (items)
		p->items = items;
	if (p->count == PROBLEMS_MOST - 1) {
		mem_free(text);
		text = mem_copy_string("there are more problems, which are not listed");
	}
	if (!items || !text) {
		mem_free(text);
		return;
	}
	item.text = text;
	item.file = mem_copy_string(file);
	p->items[p->count++] = item;
}

void conf_problem_add(struct conf_problems *p, bool is_warning, const char *file, int line,
		      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	problem_keep(p, (struct conf_problem){ .line = line, .is_warning = is_warning }, file,
		     format_text("", format, args));
	va_end(args);
}

void conf_problem_add_tls(struct conf_problems *p, bool is_warning, const char *file, int line,
			  const char *format, ...)
{
	struct conf_problem item = { .line = line, .is_warning = is_warning, .is_about_tls = true };
	va_list args;

	va_start(args, format);
	problem_keep(p, item, file, format_text("TLS setup failed: ", format, args));
	va_end(args);
}

/* ---- files ---- */

static struct conf_file *problem_find(struct conf_file *files, const char *setting,
				      const char *path)
{
	while (files && (files->setting != setting || strcmp(files->path, path) != 0))
		files = files->next;
	return files;
}

bool access_note_file(struct conf_file **files, const struct conf_file *file, struct arena *arena)
{
	struct conf_file *f;

	if (problem_find(*files, file->setting, file->path))
		return true;
	f = arena_take(arena, sizeof(*f));
	if (!f)
		return false;
	*f = *file;
	f->path = arena_copy(arena, file->path, strlen(file->path));
	f->file = file->file ? arena_copy(arena, file->file, strlen(file->file)) : NULL;
	f->next = *files;
	*files = f;
	return f->path && (f->file || !file->file);
}

void access_note_secret(struct conf_file *files, const char *path, int line)
{
	struct conf_file *f = problem_find(files, NULL, path);

	if (!f || f->is_secret)
		return;
	f->is_secret = true;
	f->line = line;
}
