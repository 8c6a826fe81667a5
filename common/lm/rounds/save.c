/* save.c - a round as rows of numbers, of which only those that changed are kept, and back; and
 * from the one JSON object that versions before kept. */
#include "common/lm/rounds/round.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* Rows of whole numbers: one list of places says what is written and read. A time is kept as what
 * is left until it. */
enum field { NUMBER, TIME, FLAG };
struct place {
	enum field field;
	size_t at;
};
#define AT(type, field, member)                      \
	{                                            \
		field, offsetof(struct type, member) \
	}
#define MEMBER(field, member) AT(round_member, field, member)
#define DELTA(field, member)  AT(round_delta, field, member)
#define WHOLE(field, member)  AT(round, field, member)

static const struct place member_places[] = { MEMBER(FLAG, here), MEMBER(FLAG, asks),
	MEMBER(FLAG, works), MEMBER(FLAG, expected), MEMBER(FLAG, done),
	MEMBER(FLAG, dropped), MEMBER(NUMBER, speed), MEMBER(NUMBER, counts),
	MEMBER(NUMBER, work.turn), MEMBER(NUMBER, work.steps),
	MEMBER(NUMBER, work.range.first), MEMBER(NUMBER, work.range.count),
	MEMBER(TIME, work.at), MEMBER(TIME, work.deadline) };

static const struct place next_places[] = { MEMBER(NUMBER, next.turn),
	MEMBER(NUMBER, next.steps), MEMBER(NUMBER, next.range.first),
	MEMBER(NUMBER, next.range.count), MEMBER(TIME, next.at) };

static const struct place delta_places[] = { DELTA(NUMBER, member), DELTA(NUMBER, turn),
	DELTA(NUMBER, steps), DELTA(NUMBER, range.first), DELTA(NUMBER, range.count),
	DELTA(NUMBER, weight_tokens), DELTA(TIME, at), DELTA(FLAG, late),
	DELTA(FLAG, refused) };

static const struct place range_places[] = { AT(round_range, NUMBER, first),
	AT(round_range, NUMBER, count) };

static const struct place whole_places[] = { WHOLE(NUMBER, number), WHOLE(TIME, began),
	WHOLE(TIME, opened), WHOLE(TIME, first_arrival), WHOLE(TIME, last_arrival),
	WHOLE(TIME, opened_before), WHOLE(NUMBER, next), WHOLE(NUMBER, noffsets),
	WHOLE(NUMBER, fastest), WHOLE(NUMBER, waited[0]) };
#define PLACES(list) list, sizeof(list) / sizeof *(list)

static int malformed(const char *where, const char *what)
{
	return err_set(EX_DATAERR, "%s: '%s' is not what a round keeps", where, what);
}

static int read_row(void *to, const struct place *places, size_t n, const json_t *row,
	int64_t now)
{
	if (json_array_size(row) != n)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(row, i);
		int64_t v = json_is_null(item) ? ROUND_NEVER : json_integer_value(item);
		char *at = (char *)to + places[i].at;

		if ((json_is_null(item) ? places[i].field != TIME :
					  !json_is_integer(item)) ||
			(v < 0 && places[i].field != TIME) ||
			(v > 1 && places[i].field == FLAG))
			return -1;
		if (places[i].field == TIME && v != ROUND_NEVER &&
			__builtin_add_overflow(v, now, &v))
			return -1;
		if (places[i].field == FLAG)
			*(bool *)at = v;
		else
			*(int64_t *)at = v;
	}
	return 0;
}

static int read_offsets(struct round *r, const json_t *offsets)
{
	if (json_array_size(offsets) != ROUND_OFFSETS)
		return -1;
	for (size_t i = 0; i < ROUND_OFFSETS; i++)
		r->offsets[i] = json_integer_value(json_array_get(offsets, i));
	return 0;
}

static void count_members(struct round *r)
{
	r->here = r->asking = r->working = r->expected = r->on_time = 0;
	for (size_t i = 0; i < r->nmembers; i++) {
		r->here += r->members[i].here;
		r->asking += r->members[i].asks;
		r->working += r->members[i].works;
		r->expected += r->members[i].expected;
	}
	for (size_t i = 0; i < r->ndeltas; i++)
		r->on_time += !r->deltas[i].late && !r->deltas[i].refused;
}

/* --- rows ----------------------------------------------------------------------------------- */

void round_touch(struct round *r, enum round_part part, uint64_t key)
{
	struct round_touched *t = &r->touched[part];

	if (t->all || (t->n && t->keys[t->n - 1] == key))
		return;
	/* where nobody keeps the round, the list does not grow for ever */
	if (t->n > 2 * (r->nmembers + r->ndeltas + r->nlate + r->nfree) + 256) {
		round_touch_all(r, part);
		return;
	}
	t->keys = xgrow(t->keys, &t->cap, t->n + 1, sizeof *t->keys);
	t->keys[t->n++] = key;
}

void round_touch_all(struct round *r, enum round_part part)
{
	r->touched[part].all = true;
	r->touched[part].n = 0;
}

void round_kept(struct round *r)
{
	for (int i = 0; i < ROUND_PARTS; i++) {
		r->touched[i].all = false;
		r->touched[i].n = 0;
	}
}

static void put_numbers(struct buf *out, const void *of, const struct place *places,
	size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *at = (const char *)of + places[i].at;
		int64_t v = places[i].field == FLAG ? *(const bool *)at :
						      *(const int64_t *)at;

		buf_adds(out, out->len > 1 ? "," : "");
		if (places[i].field == TIME && v == ROUND_NEVER)
			buf_adds(out, "null");
		else
			buf_addf(out, "%" PRId64, v);
	}
}

/* The range that begins with this sequence; NULL: there is none. */
static const struct round_range *find_free(const struct round *r, uint64_t first)
{
	size_t low = 0, high = r->nfree;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (r->free[middle].first < first)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->nfree && r->free[low].first == first ? r->free + low : NULL;
}

static size_t rows_of(const struct round *r, enum round_part part)
{
	const size_t counts[ROUND_PARTS] = { [ROUND_WHOLE] = 1,
		[ROUND_ARRIVED] = 1,
		[ROUND_MEMBERS] = r->nmembers,
		[ROUND_DELTAS] = r->ndeltas,
		[ROUND_LATER] = r->nlate,
		[ROUND_FREE] = r->nfree };

	return counts[part];
}

/* Writes the row of a key. Returns false: there is none. */
static bool put_row(struct buf *out, const struct round *r, enum round_part part,
	uint64_t key, int64_t now)
{
	const struct round_range *range;

	buf_reset(out);
	buf_addc(out, '[');
	switch (part) {
	case ROUND_WHOLE:
		buf_addf(out, "%" PRId64 ",%d", now, (int)r->phase);
		put_numbers(out, r, PLACES(whole_places));
		for (int i = ROUND_MEMBERS; i < ROUND_PARTS; i++)
			buf_addf(out, ",%zu", rows_of(r, (enum round_part)i));
		break;
	case ROUND_ARRIVED:
		for (size_t i = 0; i < ROUND_OFFSETS; i++)
			buf_addf(out, "%s%" PRId64, i ? "," : "", r->offsets[i]);
		break;
	case ROUND_MEMBERS:
		if (key >= r->nmembers)
			return false;
		put_numbers(out, r->members + key, PLACES(member_places));
		if (r->members[key].has_next)
			put_numbers(out, r->members + key, PLACES(next_places));
		break;
	case ROUND_DELTAS:
	case ROUND_LATER:
		if (key >= (part == ROUND_DELTAS ? r->ndeltas : r->nlate))
			return false;
		put_numbers(out, (part == ROUND_DELTAS ? r->deltas : r->late) + key,
			PLACES(delta_places));
		break;
	default:
		range = find_free(r, key);
		if (!range)
			return false;
		put_numbers(out, range, PLACES(range_places));
	}
	buf_addc(out, ']');
	return true;
}

/* The key of row i of a part; false: there are no more. */
static bool key_at(const struct round *r, enum round_part part, size_t i, uint64_t *key)
{
	if (i >= rows_of(r, part))
		return false;
	*key = part == ROUND_FREE ? r->free[i].first : i;
	return true;
}

static int keep_part(const struct round *r, enum round_part part, int64_t now,
	struct buf *text, round_row_fn fn, void *ctx)
{
	const struct round_touched *t = &r->touched[part];
	bool all = t->all || part == ROUND_WHOLE;
	uint64_t key;

	if (all && part != ROUND_WHOLE && fn(ctx, part, ROUND_ALL, NULL) < 0)
		return -1;
	for (size_t i = 0; all ? key_at(r, part, i, &key) : i < t->n; i++) {
		if (!all)
			key = t->keys[i];
		if (fn(ctx, part, key,
			    put_row(text, r, part, key, now) ? buf_text(text) : NULL) < 0)
			return -1;
	}
	return 0;
}

int round_keep(const struct round *r, int64_t now, round_row_fn fn, void *ctx)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	for (int part = 0; part < ROUND_PARTS && rc == 0; part++)
		rc = keep_part(r, (enum round_part)part, now, &text, fn, ctx);
	buf_release(&text);
	return rc;
}

void round_read(struct round *r)
{
	struct round_policy policy = r->policy;

	round_release(r);
	r->policy = policy;
	r->clock = ROUND_NEVER;
	for (int i = 0; i < ROUND_PARTS; i++)
		round_touch_all(r, (enum round_part)i);
}

/* How many rows each part has: versions before did not say it. */
static int read_counts(struct round *r, json_t *row)
{
	const size_t n = 2 + sizeof whole_places / sizeof *whole_places;

	r->counted = json_array_size(row) > n;
	for (int i = ROUND_MEMBERS; r->counted && i < ROUND_PARTS; i++) {
		const json_t *count = json_array_get(row, n);

		if (!json_is_integer(count) || json_integer_value(count) < 0)
			return -1;
		r->rows[i] = (uint64_t)json_integer_value(count);
		json_array_remove(row, n);
	}
	return 0;
}

static int read_whole(struct round *r, json_t *row)
{
	const json_t *phase;

	if (read_counts(r, row) < 0)
		return -1;
	phase = json_array_get(row, 1);
	if (!json_is_integer(json_array_get(row, 0)) || !json_is_integer(phase) ||
		json_integer_value(phase) < 0 || json_integer_value(phase) > ROUND_CLOSED)
		return -1;
	r->clock = json_integer_value(json_array_get(row, 0));
	r->phase = (enum round_phase)json_integer_value(phase);
	json_array_remove(row, 0);
	json_array_remove(row, 0);
	return read_row(r, PLACES(whole_places), row, 0);
}

/* Makes room for the next of a list; rows come in the order of their keys, without gaps. Returns
 * NULL: this key is not the next. */
static void *next_of(void **list, size_t *n, size_t *cap, size_t size, uint64_t key)
{
	if (key != *n)
		return NULL;
	*list = xgrow(*list, cap, *n + 1, size);
	memset((char *)*list + *n * size, 0, size);
	return (char *)*list + (*n)++ * size;
}

static int read_member(struct round *r, uint64_t key, json_t *row)
{
	size_t n = sizeof member_places / sizeof *member_places;
	struct round_member *m = next_of((void **)&r->members, &r->nmembers,
		&r->members_cap, sizeof *m, key);
	json_t *next = NULL;
	int rc;

	if (!m)
		return -1;
	if (json_array_size(row) > n) {
		next = json_array();
		while (json_array_size(row) > n) {
			json_array_append(next, json_array_get(row, n));
			json_array_remove(row, n);
		}
		m->has_next = true;
		m->next.deadline = ROUND_NEVER;
	}
	rc = read_row(m, PLACES(member_places), row, 0);
	if (rc == 0 && next)
		rc = read_row(m, PLACES(next_places), next, 0);
	json_decref(next);
	return rc;
}

static int read_delta(struct round_delta **list, size_t *n, size_t *cap, uint64_t key,
	json_t *row)
{
	struct round_delta *d = next_of((void **)list, n, cap, sizeof *d, key);

	return d ? read_row(d, PLACES(delta_places), row, 0) : -1;
}

/* Ranges come in order, too, and apart. */
static int read_free(struct round *r, uint64_t key, json_t *row)
{
	struct round_range *range = next_of((void **)&r->free, &r->nfree, &r->free_cap,
		sizeof *range, r->nfree);

	if (read_row(range, PLACES(range_places), row, 0) < 0 || range->first != key)
		return -1;
	return r->nfree > 1 && range[-1].first + range[-1].count > key ? -1 : 0;
}

static int read_part(struct round *r, enum round_part part, uint64_t key, json_t *row)
{
	switch (part) {
	case ROUND_WHOLE:
		return key ? -1 : read_whole(r, row);
	case ROUND_ARRIVED:
		r->arrived = true;
		return key ? -1 : read_offsets(r, row);
	case ROUND_MEMBERS:
		return read_member(r, key, row);
	case ROUND_DELTAS:
		return read_delta(&r->deltas, &r->ndeltas, &r->deltas_cap, key, row);
	case ROUND_LATER:
		return read_delta(&r->late, &r->nlate, &r->late_cap, key, row);
	case ROUND_FREE:
		return read_free(r, key, row);
	default:
		return -1;
	}
}

int round_read_row(struct round *r, enum round_part part, uint64_t key, const char *text,
	const char *where)
{
	json_t *row = json_parse(text, strlen(text), 2, where);
	int rc = -1;

	if (!row)
		return -1;
	if (json_is_array(row))
		rc = read_part(r, part, key, row);
	json_decref(row);
	return rc < 0 ? malformed(where, "rounds") : 0;
}

/* Whether deltas are of members that are there. */
static bool are_members(const struct round *r, const struct round_delta *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (d[i].member >= r->nmembers)
			return false;
	return true;
}

/* Moves the times of rows to another clock. */
static int shift(void *of, const struct place *places, size_t n, int64_t by)
{
	for (size_t i = 0; i < n; i++) {
		int64_t *v = (int64_t *)((char *)of + places[i].at);

		if (places[i].field == TIME && *v != ROUND_NEVER &&
			__builtin_add_overflow(*v, by, v))
			return -1;
	}
	return 0;
}

/* Whether all rows came that were kept. */
static int check_rows(const struct round *r, const char *where)
{
	static const char *const names[ROUND_PARTS] = { [ROUND_MEMBERS] = "members",
		[ROUND_DELTAS] = "deltas",
		[ROUND_LATER] = "late deltas",
		[ROUND_FREE] = "ranges" };

	if (r->clock == ROUND_NEVER)
		return err_set(EX_DATAERR, "%s: the open round's own row is missing",
			where);
	if (!r->arrived)
		return err_set(EX_DATAERR,
			"%s: the open round's row of arrivals is missing", where);
	for (int i = ROUND_MEMBERS; r->counted && i < ROUND_PARTS; i++)
		if (rows_of(r, (enum round_part)i) != r->rows[i])
			return err_set(EX_DATAERR,
				"%s: the open round has %zu rows of %s, not %llu", where,
				rows_of(r, (enum round_part)i), names[i],
				(unsigned long long)r->rows[i]);
	return 0;
}

int round_read_end(struct round *r, int64_t now, const char *where)
{
	int64_t by = 0;
	int rc;

	if (check_rows(r, where) < 0)
		return -1;
	rc = __builtin_sub_overflow(now, r->clock, &by) ? -1 : 0;

	if (rc == 0)
		rc = shift(r, PLACES(whole_places), by);
	for (size_t i = 0; i < r->nmembers && rc == 0; i++) {
		rc = shift(r->members + i, PLACES(member_places), by);
		if (rc == 0 && r->members[i].has_next)
			rc = shift(r->members + i, PLACES(next_places), by);
	}
	for (size_t i = 0; i < r->ndeltas && rc == 0; i++)
		rc = shift(r->deltas + i, PLACES(delta_places), by);
	for (size_t i = 0; i < r->nlate && rc == 0; i++)
		rc = shift(r->late + i, PLACES(delta_places), by);
	if (rc < 0 || !are_members(r, r->deltas, r->ndeltas) ||
		!are_members(r, r->late, r->nlate))
		return malformed(where, "rounds");
	count_members(r);
	return 0;
}

/* --- the one object of versions before ---------------------------------------------------- */

/* An array of rows: the values are the caller's to free, also on failure. */
static int read_rows(void **out, size_t *count, size_t *cap, size_t size,
	const struct place *places, size_t n, const json_t *rows, int64_t now)
{
	size_t have = json_array_size(rows);

	*out = xcalloc(have + 1, size);
	*cap = have + 1;
	*count = have;
	if (!json_is_array(rows))
		return -1;
	for (size_t i = 0; i < have; i++)
		if (read_row((char *)*out + i * size, places, n, json_array_get(rows, i),
			    now) < 0)
			return -1;
	return 0;
}

/* Absent in what an older version has kept. */
static int load_ahead(struct round *r, const json_t *ahead, int64_t now)
{
	for (size_t i = 0; i + 1 < json_array_size(ahead); i += 2) {
		json_int_t n = json_integer_value(json_array_get(ahead, i));

		if (n < 0 || (uint64_t)n >= r->nmembers ||
			read_row(&r->members[n], PLACES(next_places),
				json_array_get(ahead, i + 1), now) < 0)
			return -1;
		r->members[n].next.deadline = ROUND_NEVER;
		r->members[n].has_next = true;
	}
	return 0;
}

int round_load(struct round *r, const json_t *saved, int64_t now, const char *where)
{
	int64_t phase;

	if (json_get_i64(saved, where, "phase", 0, ROUND_CLOSED, &phase) < 0)
		return -1;
	round_read(r);
	r->phase = (enum round_phase)phase;
	if (read_row(r, PLACES(whole_places), json_object_get(saved, "round"), now) < 0)
		return malformed(where, "round");
	if (read_offsets(r, json_object_get(saved, "offsets")) < 0)
		return malformed(where, "offsets");
	if (read_rows((void **)&r->members, &r->nmembers, &r->members_cap,
		    sizeof *r->members, PLACES(member_places),
		    json_object_get(saved, "members"), now) < 0)
		return malformed(where, "members");
	if (load_ahead(r, json_object_get(saved, "ahead"), now) < 0)
		return malformed(where, "ahead");
	if (read_rows((void **)&r->deltas, &r->ndeltas, &r->deltas_cap, sizeof *r->deltas,
		    PLACES(delta_places), json_object_get(saved, "deltas"), now) < 0)
		return malformed(where, "deltas");
	if (read_rows((void **)&r->late, &r->nlate, &r->late_cap, sizeof *r->late,
		    PLACES(delta_places), json_object_get(saved, "late"), now) < 0)
		return malformed(where, "late");
	if (read_rows((void **)&r->free, &r->nfree, &r->free_cap, sizeof *r->free,
		    PLACES(range_places), json_object_get(saved, "free"), 0) < 0)
		return malformed(where, "free");
	count_members(r);
	return 0;
}
