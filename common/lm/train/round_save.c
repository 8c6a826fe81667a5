/* round_save.c - a round as JSON, and back. */
#include "common/lm/train/round.h"

#include <stddef.h>
#include <string.h>

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

static json_t *row_of(const void *of, const struct place *places, size_t n, int64_t now)
{
	json_t *row = json_array();

	for (size_t i = 0; i < n; i++) {
		const char *at = (const char *)of + places[i].at;
		int64_t v = places[i].field == FLAG ? *(const bool *)at :
						      *(const int64_t *)at;

		if (places[i].field == TIME && v != ROUND_NEVER)
			v -= now;
		json_push(row, json_integer(v));
	}
	return row;
}

static json_t *rows_of(const void *first, size_t size, size_t count,
	const struct place *places, size_t n, int64_t now)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < count; i++)
		json_push(rows, row_of((const char *)first + i * size, places, n, now));
	return rows;
}

/* Assignments that were given ahead: the member's number and a row. */
static json_t *save_ahead(const struct round *r, int64_t now)
{
	json_t *out = json_array();

	for (size_t i = 0; i < r->nmembers; i++)
		if (r->members[i].has_next) {
			json_push(out, json_integer((json_int_t)i));
			json_push(out, row_of(&r->members[i], PLACES(next_places), now));
		}
	return out;
}

json_t *round_save(const struct round *r, int64_t now)
{
	json_t *out = json_object(), *offsets = json_array();

	for (size_t i = 0; i < ROUND_OFFSETS; i++)
		json_push(offsets, json_integer(r->offsets[i]));
	json_set_i64(out, "phase", r->phase);
	json_set(out, "round", row_of(r, PLACES(whole_places), now));
	json_set(out, "offsets", offsets);
	json_set(out, "members",
		rows_of(r->members, sizeof *r->members, r->nmembers,
			PLACES(member_places), now));
	json_set(out, "ahead", save_ahead(r, now));
	json_set(out, "deltas",
		rows_of(r->deltas, sizeof *r->deltas, r->ndeltas, PLACES(delta_places),
			now));
	json_set(out, "late",
		rows_of(r->late, sizeof *r->late, r->nlate, PLACES(delta_places), now));
	json_set(out, "free",
		rows_of(r->free, sizeof *r->free, r->nfree, PLACES(range_places), 0));
	return out;
}

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
		int64_t v = json_integer_value(item);
		char *at = (char *)to + places[i].at;

		if (!json_is_integer(item) || (v < 0 && places[i].field != TIME) ||
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

static int read_offsets(struct round *r, const json_t *offsets)
{
	if (json_array_size(offsets) != ROUND_OFFSETS)
		return -1;
	for (size_t i = 0; i < ROUND_OFFSETS; i++)
		r->offsets[i] = json_integer_value(json_array_get(offsets, i));
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

int round_load(struct round *r, const json_t *saved, int64_t now, const char *where)
{
	struct round_policy policy = r->policy;
	int64_t phase;

	if (json_get_i64(saved, where, "phase", 0, ROUND_CLOSED, &phase) < 0)
		return -1;
	round_release(r);
	r->policy = policy;
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
