/* twap_core.c - sweeps over the window from event to event: a sample begins or becomes too old. */
#include "cmd/rnp-reward/twap_core.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"

typedef unsigned __int128 u128;

static int by_time(const void *a, const void *b)
{
	const struct twap_sample *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return (x->price_uusd > y->price_uusd) - (x->price_uusd < y->price_uusd);
}

static int by_price(const void *a, const void *b)
{
	const struct twap_sample *x = *(const struct twap_sample *const *)a;
	const struct twap_sample *y = *(const struct twap_sample *const *)b;

	return (x->price_uusd > y->price_uusd) - (x->price_uusd < y->price_uusd);
}

struct sweep {
	struct twap *t;
	/* of each source, NULL: none yet */
	const struct twap_sample *last[TWAP_SOURCES_MAX];
	u128 sum; /* 2 x price x ms */
};

static bool is_near(const struct twap *t, int64_t price, int64_t middle)
{
	return (u128)llabs(price - middle) * 1000000 <=
		(u128)middle * (u128)t->outlier_ppm;
}

/* Accounts for [from, to), in which nothing changes. */
static int account(struct sweep *s, int64_t from, int64_t to)
{
	const struct twap_sample *fresh[TWAP_SOURCES_MAX], *kept[TWAP_SOURCES_MAX];
	struct twap *t = s->t;
	int n = 0, m = 0;
	int64_t low, high; /* the two in the middle, or twice the one */

	if (from >= to)
		return 0;
	for (int i = 0; i < TWAP_SOURCES_MAX; i++)
		if (s->last[i] && from - s->last[i]->at_ms < t->age_ms)
			fresh[n++] = s->last[i];
	if (n)
		qsort(fresh, (size_t)n, sizeof *fresh, by_price);
	low = n ? fresh[(n - 1) / 2]->price_uusd : 0;
	high = n ? fresh[n / 2]->price_uusd : 0;
	for (int i = 0; i < n; i++)
		/* of both: of two halves that contradict each other neither is right */
		if (is_near(t, fresh[i]->price_uusd, low) &&
			is_near(t, fresh[i]->price_uusd, high))
			kept[m++] = fresh[i];
		else
			t->left_out_ms[fresh[i]->source] += to - from;
	if (m < t->quorum) {
		char text[CLOCK_TEXT_MAX];

		t->gap_ms = from;
		clock_format(text, from);
		return err_set(EX_DATAERR,
			"at %s %d sources are fresh and agree, %d are needed: no price",
			text, m, t->quorum);
	}
	for (int i = 0; i < m; i++)
		t->used_ms[kept[i]->source] += to - from;
	s->sum += ((u128)kept[(m - 1) / 2]->price_uusd + (u128)kept[m / 2]->price_uusd) *
		(u128)(to - from);
	return 0;
}

/* Returns the next instant after now at which some sample becomes too old; INT64_MAX: none. */
static int64_t next_expiry(const struct sweep *s, int64_t now)
{
	int64_t first = INT64_MAX;

	for (int i = 0; i < TWAP_SOURCES_MAX; i++) {
		int64_t end = s->last[i] ? s->last[i]->at_ms + s->t->age_ms : 0;

		if (end > now && end < first)
			first = end;
	}
	return first;
}

/* Advances from now to `until`, stopping where samples become too old. */
static int advance(struct sweep *s, int64_t *now, int64_t until)
{
	while (*now < until) {
		int64_t stop = next_expiry(s, *now);

		stop = stop < until ? stop : until;
		if (account(s, *now, stop) < 0)
			return -1;
		*now = stop;
	}
	return 0;
}

int twap_compute(struct twap *t, struct twap_sample *samples, size_t n)
{
	struct sweep s = { .t = t };
	int64_t now = t->from_ms;
	u128 length = 2 * (u128)(t->to_ms - t->from_ms), rest;

	memset(t->used_ms, 0, sizeof t->used_ms);
	memset(t->left_out_ms, 0, sizeof t->left_out_ms);
	t->gap_ms = -1;
	if (n)
		qsort(samples, n, sizeof *samples, by_time);
	for (size_t i = 0; i < n && samples[i].at_ms < t->to_ms; i++) {
		if (samples[i].at_ms > now && advance(&s, &now, samples[i].at_ms) < 0)
			return -1;
		s.last[samples[i].source] = &samples[i];
	}
	if (advance(&s, &now, t->to_ms) < 0)
		return -1;
	t->price_uusd = (int64_t)(s.sum / length);
	rest = s.sum % length;
	if (2 * rest > length || (2 * rest == length && t->price_uusd % 2))
		t->price_uusd++;
	return 0;
}
