/* filter.c - finds stop texts, then reasoning tags, in text that arrives in pieces. */
#include "cmd/rnp-serve/chat/filter.h"

#include <string.h>

void filter_init(struct filter *f, const char *const *stop, uint32_t stop_count,
	bool reasons, bool inside)
{
	*f = (struct filter){ .stop = stop,
		.stop_count = stop_count,
		.state = inside ? FILTER_REASONING :
			reasons ? FILTER_START :
				  FILTER_CONTENT };
}

void filter_release(struct filter *f)
{
	buf_release(&f->held);
	buf_release(&f->marked);
}

/* Removes the first n bytes. */
static void consume(struct buf *b, size_t n)
{
	b->len -= n;
	if (b->len)
		memmove(b->data, b->data + n, b->len);
	if (b->data)
		b->data[b->len] = '\0';
}

/* Returns the length of the longest end of text that is a proper prefix of `whole`. */
static size_t begun(const struct buf *text, const char *whole)
{
	size_t n = strlen(whole) - 1;

	if (n > text->len)
		n = text->len;
	while (n && memcmp(text->data + text->len - n, whole, n) != 0)
		n--;
	return n;
}

/* --- reasoning ---------------------------------------------------------------------------- */

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Looks for an opening tag at the start of a text, after any white space. Returns false if it
 * needs more text to decide. */
static bool start(struct filter *f, bool ended)
{
	size_t blanks = 0, mark = strlen(FILTER_THINK), left;

	while (blanks < f->marked.len && is_space(f->marked.data[blanks]))
		blanks++;
	left = f->marked.len - blanks;
	if (left >= mark && memcmp(f->marked.data + blanks, FILTER_THINK, mark) == 0) {
		consume(&f->marked, blanks + mark);
		f->state = FILTER_REASONING;
		return true;
	}
	if (!ended && left < mark &&
		(!left || memcmp(f->marked.data + blanks, FILTER_THINK, left) == 0))
		return false;
	f->state = FILTER_CONTENT;
	return true;
}

static bool reason(struct filter *f, struct buf *reasoning, bool ended)
{
	char *end = f->marked.len ? memmem(f->marked.data, f->marked.len,
					    FILTER_THINK_END, strlen(FILTER_THINK_END)) :
				    NULL;
	size_t n = end ? (size_t)(end - f->marked.data) : f->marked.len;

	if (!end && !ended)
		n -= begun(&f->marked, FILTER_THINK_END);
	buf_add(reasoning, f->marked.data, n);
	consume(&f->marked, n + (end ? strlen(FILTER_THINK_END) : 0));
	if (end)
		f->state = FILTER_AFTER;
	return end != NULL;
}

/* Blank lines between reasoning and answer are dropped. */
static bool after(struct filter *f)
{
	size_t n = 0;

	while (n < f->marked.len && is_space(f->marked.data[n]))
		n++;
	consume(&f->marked, n);
	if (!f->marked.len)
		return false;
	f->state = FILTER_CONTENT;
	return true;
}

static void sort_out(struct filter *f, const char *text, size_t len, struct buf *content,
	struct buf *reasoning, bool ended)
{
	bool on = true;

	if (f->state == FILTER_CONTENT) {
		buf_add(content, text, len);
		return;
	}
	buf_add(&f->marked, text, len);
	while (on && f->state != FILTER_CONTENT)
		on = f->state == FILTER_START        ? start(f, ended) :
			f->state == FILTER_REASONING ? reason(f, reasoning, ended) :
						       after(f);
	if (f->state == FILTER_CONTENT) {
		buf_add(content, f->marked.data, f->marked.len);
		buf_reset(&f->marked);
	}
}

/* --- stop texts --------------------------------------------------------------------------- */

/* Returns where the earliest stop text begins, or NULL. */
static const char *find_stop(const struct filter *f)
{
	const char *first = NULL;

	for (uint32_t i = 0; i < f->stop_count && f->held.len; i++) {
		const char *at = memmem(f->held.data, f->held.len, f->stop[i],
			strlen(f->stop[i]));

		if (at && (!first || at < first))
			first = at;
	}
	return first;
}

bool filter_push(struct filter *f, const char *text, size_t len, struct buf *content,
	struct buf *reasoning)
{
	const char *at;
	size_t hold = 0;

	if (f->stopped)
		return true;
	buf_add(&f->held, text, len);
	at = find_stop(f);
	if (at) {
		f->stopped = true;
		f->held.len = (size_t)(at - f->held.data);
		sort_out(f, f->held.data, f->held.len, content, reasoning, false);
		buf_reset(&f->held);
		return true;
	}
	for (uint32_t i = 0; i < f->stop_count; i++) {
		size_t n = begun(&f->held, f->stop[i]);

		if (n > hold)
			hold = n;
	}
	sort_out(f, f->held.data, f->held.len - hold, content, reasoning, false);
	consume(&f->held, f->held.len - hold);
	return false;
}

void filter_end(struct filter *f, struct buf *content, struct buf *reasoning)
{
	sort_out(f, f->held.data, f->held.len, content, reasoning, true);
	buf_reset(&f->held);
}
