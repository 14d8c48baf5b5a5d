/*
 * The list of what is wrong with a configuration. All problems are collected, because an operator who
 * mends a file wants to hear of the second fault before the second attempt. A file that is no
 * configuration at all would give a problem for each line, so the list stops growing at some point;
 * `errors` goes on counting, which is what decides.
 */
#include "conf/conf.h"

#include <stdarg.h>
#include <stdio.h>

#define PROBLEMS_MOST 500

static char *format_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

static char *format_text(const char *format, va_list args)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = length < 0 ? NULL : mem_try((size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, format, args);
	return text;
}

void conf_problem_add(struct conf_problems *p, bool is_warning, const char *file, int line, const char *format, ...)
{
	struct conf_problem item = { .line = line, .is_warning = is_warning };
	struct conf_problem *items;
	va_list args;

	if (!is_warning)
		p->errors++;
	if (p->count >= PROBLEMS_MOST)
		return;
	items = mem_resize(p->items, (p->count + 1) * sizeof(*items));
	if (!items)
		return;
	p->items = items;
	va_start(args, format);
	if (p->count == PROBLEMS_MOST - 1)
		item.text = mem_copy_string("there are more problems, which are not listed");
	else
		item.text = format_text(format, args);
	va_end(args);
	item.file = mem_copy_string(file);
	if (item.text)
		p->items[p->count++] = item;
	else
		mem_free(item.file);
}

void conf_problems_free(struct conf_problems *p)
{
	for (size_t i = 0; i < p->count; i++) {
		mem_free(p->items[i].file);
		mem_free(p->items[i].text);
	}
	mem_free(p->items);
	*p = (struct conf_problems){ 0 };
}
