/* access.c - the table is one sorted text, so that the program that sshd runs for each login
 * finds a key among 100,000 in some steps of a mapped file. */
#include "cmd/rnp-register/gateway/access.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/place.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* One thing that a key may do: listen on the address of a lease, or open it. */
struct right {
	const struct sshkey *key;
	int64_t number;
	bool opens;
};

/* What a record grants. */
struct rights {
	struct sshkey **keys;
	struct right *list;
	size_t nkeys, keys_cap, n, cap;
};

static void rights_release(struct rights *r)
{
	for (size_t i = 0; i < r->nkeys; i++)
		free(r->keys[i]);
	free(r->keys);
	free(r->list);
}

static struct sshkey *add_key(struct rights *r)
{
	if (r->nkeys == r->keys_cap) {
		r->keys_cap = r->keys_cap ? 2 * r->keys_cap : 64;
		r->keys = xrealloc(r->keys, r->keys_cap * sizeof(struct sshkey *));
	}
	r->keys[r->nkeys] = xcalloc(1, sizeof(struct sshkey));
	return r->keys[r->nkeys++];
}

static void add_right(struct rights *r, const struct sshkey *key, int64_t number,
	bool opens)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 256;
		r->list = xrealloc(r->list, r->cap * sizeof(struct right));
	}
	r->list[r->n++] = (struct right){ key, number, opens };
}

/* Grants a list of lease numbers to a key. */
static int add_numbers(struct rights *r, const json_t *entry, const char *where,
	const char *list, const struct sshkey *key, bool listens, bool opens)
{
	json_t *numbers = json_object_get(entry, list), *item;
	size_t i;

	if (numbers && !json_is_array(numbers))
		return err_set(EX_DATAERR, "%s: '%s' is no list", where, list);
	json_array_foreach(numbers, i, item) {
		json_int_t n = json_integer_value(item);

		if (!json_is_integer(item) || n < 1 || n > PLACE_NUMBER_MAX)
			return err_set(EX_DATAERR, "%s: %s[%zu] is no lease's number",
				where, list, i);
		if (listens)
			add_right(r, key, n, false);
		if (opens)
			add_right(r, key, n, true);
	}
	return 0;
}

/* A node listens for its leases, opens those of its peers, and its own, to try the way that its
 * customer takes. */
static int add_node(struct rights *r, const json_t *entry, const char *where)
{
	unsigned char public_key[KEY_PUBLIC_BYTES];
	const char *address;
	struct sshkey *key;

	if (json_get_text(entry, where, "node", &address) < 0 ||
		address_parse(address, where, public_key) < 0)
		return -1;
	key = add_key(r);
	sshkey_of_node(public_key, key);
	return add_numbers(r, entry, where, "numbers", key, true, true) < 0 ?
		-1 :
		add_numbers(r, entry, where, "peers", key, false, true);
}

static int add_customer(struct rights *r, const json_t *entry, const char *where)
{
	struct sshkey *key = add_key(r);
	const char *text;

	if (json_get_text(entry, where, "key", &text) < 0 ||
		sshkey_parse(text, where, key) < 0)
		return -1;
	return add_numbers(r, entry, where, "numbers", key, false, true);
}

static int add_all(struct rights *r, const json_t *record, const char *where,
	const char *list, int (*add)(struct rights *, const json_t *, const char *))
{
	json_t *entries, *entry;
	char at[128];
	size_t i;

	if (json_get_array(record, where, list, &entries) < 0)
		return -1;
	json_array_foreach(entries, i, entry) {
		snprintf(at, sizeof at, "%.80s: %s[%zu]", where, list, i);
		if (add(r, entry, at) < 0)
			return -1;
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct right *x = a, *y = b;
	int order = strcmp(x->key->blob, y->key->blob);

	if (order)
		return order;
	if (x->opens != y->opens)
		return x->opens ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static bool is_same(const struct right *a, const struct right *b)
{
	return by_key(a, b) == 0;
}

/* Writes what a key may do. What it may not do at all is bound to an address that leads nowhere:
 * sshd drops a key whose permitopen is "none". */
static void write_options(struct buf *out, const struct right *list, size_t n)
{
	static const char *const names[] = { "permitlisten", "permitopen" };
	size_t written[2] = { 0 };
	char address[PLACE_TEXT_MAX];

	buf_adds(out, "restrict,port-forwarding");
	for (size_t i = 0; i < n; i++) {
		if ((i && is_same(&list[i - 1], &list[i])) ||
			written[list[i].opens] == ACCESS_ADDRESSES_MAX)
			continue;
		place_on_gateway(list[i].number, address);
		buf_addf(out, ",%s=\"%s:%d\"", names[list[i].opens], address, PLACE_PORT);
		written[list[i].opens]++;
	}
	for (int i = 0; i < 2; i++)
		if (!written[i])
			buf_addf(out, ",%s=\"127.0.0.1:1\"", names[i]);
}

static void write_table(struct buf *out, struct rights *r, struct access_counts *counts)
{
	size_t first = 0;

	*counts = (struct access_counts){ 0 };
	if (r->n)
		qsort(r->list, r->n, sizeof *r->list, by_key);
	for (size_t i = 0; i < r->n; i++) {
		const struct sshkey *key = r->list[i].key;

		if (i + 1 < r->n && strcmp(r->list[i + 1].key->blob, key->blob) == 0)
			continue;
		buf_addf(out, "%s %s ", key->blob, key->type);
		write_options(out, r->list + first, i + 1 - first);
		buf_addc(out, '\n');
		counts->keys++;
		counts->numbers += i + 1 - first;
		first = i + 1;
	}
}

int access_compile(const json_t *record, const char *where, struct buf *out,
	struct access_counts *counts)
{
	struct rights r = { 0 };
	int rc = -1;

	if (json_check_kind(record, where, "rnp.access") == 0 &&
		add_all(&r, record, where, "nodes", add_node) == 0 &&
		add_all(&r, record, where, "customers", add_customer) == 0) {
		write_table(out, &r, counts);
		rc = 0;
	}
	rights_release(&r);
	return rc;
}

/* Compares a line's first word with a blob. */
static int compare(const char *line, const char *end, const char *blob)
{
	size_t len = strlen(blob), left = (size_t)(end - line);
	int order = memcmp(line, blob, len < left ? len : left);

	if (order || left < len)
		return order ? order : -1;
	return left > len && line[len] != ' ' ? 1 : 0;
}

bool access_find(const char *table, size_t len, const char *type, const char *blob,
	struct access_span *options)
{
	size_t low = 0, high = len, n = strlen(type);

	/* both ends are starts of lines */
	while (low < high) {
		size_t middle = low + (high - low) / 2, at = middle;
		const char *end, *word;
		int order;

		while (at > low && table[at - 1] != '\n')
			at--;
		end = memchr(table + at, '\n', len - at);
		if (!end)
			return false;
		order = compare(table + at, end, blob);
		if (order < 0) {
			low = (size_t)(end - table) + 1;
			continue;
		}
		if (order > 0) {
			high = at;
			continue;
		}
		word = table + at + strlen(blob) + 1;
		if (word >= end || (size_t)(end - word) <= n ||
			memcmp(word, type, n) != 0 || word[n] != ' ')
			return false;
		*options = (struct access_span){ word + n + 1,
			(size_t)(end - word) - n - 1 };
		return true;
	}
	return false;
}

/* Takes the next option off. Returns false at the end. */
static bool next_option(struct access_span *s, struct access_span *option)
{
	const char *comma;

	if (!s->len)
		return false;
	comma = memchr(s->text, ',', s->len);
	option->text = s->text;
	option->len = comma ? (size_t)(comma - s->text) : s->len;
	s->text += option->len + (comma != NULL);
	s->len -= option->len + (comma != NULL);
	return true;
}

bool access_covers(struct access_span now, struct access_span then)
{
	struct access_span old, new;

	/* both have the order of write_options: what covers has the other's in its order; nothing
	 * is lost with an address that leads nowhere */
	while (next_option(&then, &old)) {
		if (memmem(old.text, old.len, "\"127.0.0.1:1\"", 13))
			continue;
		do
			if (!next_option(&now, &new))
				return false;
		while (new.len != old.len || memcmp(new.text, old.text, old.len) != 0);
	}
	return true;
}
