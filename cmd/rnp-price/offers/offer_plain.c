/* offer_plain.c - parses rnp.offer the fast way: see offer_list_add_plain in offer.h.
 * common/json/fast.h takes the fields; a unit test and a fuzz target compare what this accepts
 * with offer_list_add_json. */
#include <pthread.h>
#include <string.h>

#include "cmd/rnp-price/offers/offer.h"
#include "common/base/lines.h"
#include "common/json/fast.h"
#include "common/json/json.h"

/* Where the fields are stored; kind and v are not. */
enum type { NOWHERE, TEXT, NUMBER, FLAG, THREE };
static const struct place {
	const char *name;
	enum type type;
	size_t offset;
} places[] = {
	{ "market", TEXT, offsetof(struct offer, market) },
	{ "offer_id", TEXT, offsetof(struct offer, id) },
	{ "at", NUMBER, offsetof(struct offer, at_ms) },
	{ "gpu_model", TEXT, offsetof(struct offer, model) },
	{ "gpu_name", TEXT, offsetof(struct offer, name) },
	{ "gpu_count", NUMBER, offsetof(struct offer, gpu_count) },
	{ "gpu_share_ppm", NUMBER, offsetof(struct offer, gpu_share_ppm) },
	{ "gpu_memory_bytes", NUMBER, offsetof(struct offer, gpu_memory_bytes) },
	{ "uusd_per_gpu_hour", NUMBER, offsetof(struct offer, uusd_per_gpu_hour) },
	{ "spot", FLAG, offsetof(struct offer, spot) },
	{ "cpu_cores", NUMBER, offsetof(struct offer, cpu_cores) },
	{ "memory_bytes", NUMBER, offsetof(struct offer, memory_bytes) },
	{ "down_bps", NUMBER, offsetof(struct offer, down_bps) },
	{ "up_bps", NUMBER, offsetof(struct offer, up_bps) },
	{ "reliability_ppm", NUMBER, offsetof(struct offer, reliability_ppm) },
	{ "country", TEXT, offsetof(struct offer, country) },
	{ "region", TEXT, offsetof(struct offer, region) },
	{ "rentable", THREE, offsetof(struct offer, rentable) },
	{ "rented", THREE, offsetof(struct offer, rented) },
	{ "verified", THREE, offsetof(struct offer, verified) },
	{ "secure", THREE, offsetof(struct offer, secure) },
	{ "machine", TEXT, offsetof(struct offer, machine) },
	{ "host", TEXT, offsetof(struct offer, host) },
	{ "own", FLAG, offsetof(struct offer, own) },
};

/* The same by the places of the fields in fast_offer. */
static struct place stored[FAST_FIELDS_MAX];

static void find_fields(void)
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		stored[fast_field(&fast_offer, places[i].name)] = places[i];
}

/* The texts of one line, NUL-terminated. */
struct texts {
	char data[2048];
	size_t used;
};

static const char *keep_text(struct texts *t, const struct fast_piece *v)
{
	char *to = t->data + t->used;

	if (!fast_copy(v, to, sizeof t->data - t->used))
		return NULL;
	t->used += v->len - 1;
	return to;
}

static bool store(struct offer *o, const struct place *p, const struct fast_piece *v,
	struct texts *t)
{
	void *to = (char *)o + p->offset;

	switch (p->type) {
	case NOWHERE:
		break;
	case TEXT:
		return (*(const char **)to = keep_text(t, v)) != NULL;
	case NUMBER:
		*(int64_t *)to = v->number;
		break;
	case FLAG:
		*(bool *)to = v->number;
		break;
	case THREE:
		*(int *)to = (int)v->number;
		break;
	}
	return true;
}

bool offer_list_add_plain(struct offer_list *l, const char *line, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local struct fast_order order;
	struct fast f = { .scan = { line, line + len }, .order = &order };
	struct fast_piece pieces[FAST_FIELDS_MAX];
	struct texts t;
	struct offer o;
	uint64_t seen;

	pthread_once(&once, find_fields);
	if (!fast_read(&f, &fast_offer, pieces, &seen))
		return false;
	t.used = 0;
	offer_init(&o);
	for (uint64_t left = seen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		if (!store(&o, &stored[i], &pieces[i], &t))
			return false;
	}
	offer_list_add_found(l, &o);
	return true;
}

static int add_parsed(struct offer_list *l, const char *line, size_t len,
	const char *where)
{
	json_t *record = json_parse_object(line, len, where);
	int rc = record ? offer_list_add_json(l, record, where) : -1;

	json_decref(record);
	return rc;
}

int offer_list_add_line(struct offer_list *l, const char *line, size_t len,
	const char *where)
{
	return offer_list_add_plain(l, line, len) ? 0 : add_parsed(l, line, len, where);
}

int offer_list_read(struct offer_list *l, char **files, int n)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	lines_open(&in, files, n, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0)
		if (!offer_list_add_plain(l, line, len) &&
			(rc = add_parsed(l, line, len, lines_where(&in))) < 0)
			break;
	lines_close(&in);
	return rc;
}
