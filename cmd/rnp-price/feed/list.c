/* list.c - reads a market's list of JSON item by item: see feed.h.
 *
 * A market is a stranger. JSON that is parsed takes up to 80 times its bytes, so that no more than
 * an item is ever parsed at a time, of which only the fields that count. */
#include "cmd/rnp-price/feed/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/feed/item.h"
#include "cmd/rnp-price/text/json_items.h"
#include "common/base/err.h"
#include "common/json/json.h"

/* of what is parsed at a time; the largest, a node's signed record and quote, have 10 KB */
#define PARSED_BYTES_MAX ((size_t)128 << 10)

static json_t *parse(const char *text, size_t len, const char *where)
{
	if (len > PARSED_BYTES_MAX) {
		err_set(EX_DATAERR, "%s: more than %zu bytes", where, PARSED_BYTES_MAX);
		return NULL;
	}
	return json_parse(text, len, JSON_DEPTH_MAX, where);
}

static int take_item(struct feed_list *l, const struct json_items_value *value)
{
	const char *text = value->text;
	size_t len = value->len;
	struct item it;
	json_t *obj;
	int rc;

	if (value->index < 0 && *text != '{')
		return err_set(EX_DATAERR, "%s: %s", l->name, l->form->no_list);
	if (value->index < 0)
		snprintf(it.where, sizeof it.where, "%s: %.64s", l->name, value->path);
	else
		snprintf(it.where, sizeof it.where, "%s: %.64s[%ld]", l->name,
			value->path, value->index);
	if (l->form->fields && json_items_pick(&l->part, text, len, l->form->fields)) {
		text = l->part.data;
		len = l->part.len;
	}
	obj = parse(text, len, it.where);
	it.obj = obj;
	rc = obj ? l->form->item(l->feed, &it) : -1;
	json_decref(obj);
	return rc;
}

static int take_value(void *ctx, const struct json_items_value *value)
{
	struct feed_list *l = ctx;
	json_t *v;
	int rc = 0;

	if (value->item)
		return take_item(l, value);
	v = parse(value->text, value->len, l->name);
	if (v && l->form->field)
		rc = l->form->field(l, value->path, v);
	json_decref(v);
	return v ? rc : -1;
}

struct feed_list *feed_list_open(struct feed *f, const struct feed_form *form,
	const char *name)
{
	struct feed_list *l = xcalloc(1, sizeof *l);

	l->feed = f;
	l->form = form;
	l->stated = -1;
	snprintf(l->name, sizeof l->name, "%s", name);
	l->items = xcalloc(1, sizeof *l->items);
	json_items_init(l->items, l->name, form->list, form->inside, take_value, l);
	return l;
}

int feed_list_push(struct feed_list *l, const void *data, size_t len)
{
	return json_items_push(l->items, data, len);
}

int feed_list_end(struct feed_list *l)
{
	if (json_items_end(l->items) < 0)
		return -1;
	if (!l->items->lists && !l->form->single)
		return err_set(EX_DATAERR, "%s: %s", l->name, l->form->no_list);
	if (l->stated >= 0 && l->stated != l->feed->rows)
		feed_note(l->feed, l->name,
			"the feed says that it has %lld offers, it holds %ld",
			(long long)l->stated, l->feed->rows);
	return 0;
}

void feed_list_close(struct feed_list *l)
{
	if (!l)
		return;
	json_items_release(l->items);
	free(l->items);
	buf_release(&l->part);
	free(l);
}

/* The document itself is the one item. */
static int read_single(struct feed_list *l, const char *text, size_t len)
{
	struct item it;
	json_t *doc = parse(text, len, l->name);
	int rc = -1;

	snprintf(it.where, sizeof it.where, "%s", l->name);
	it.obj = doc;
	if (doc && !item_field(&it, "id"))
		err_set(EX_DATAERR, "%s: %s", l->name, l->form->no_list);
	else if (doc)
		rc = l->form->item(l->feed, &it);
	json_decref(doc);
	return rc;
}

int feed_list_read(struct feed *f, const struct feed_form *form, const char *text,
	size_t len, const char *name)
{
	struct feed_list *l = feed_list_open(f, form, name);
	int rc = feed_list_push(l, text, len);

	if (rc == 0)
		rc = feed_list_end(l);
	if (rc == 0 && !l->items->lists)
		rc = read_single(l, text, len);
	feed_list_close(l);
	return rc;
}
