/* comb_ifma.c - makes the tables of the base point and of keys whose signatures come by the
 * hundred. */
#include "kernels/sig/comb_ifma.h"

#ifdef __x86_64__
#include <pthread.h>
#include <stdlib.h>

#define TOGETHER 32 /* points that share an inversion */

/* clang-format off */
static const uint64_t base_x[5] = { 0x62d608f25d51a, 0x412a4b4f6592a, 0x75b7171a4b31d, 0x1ff60527118fe, 0x216936d3cd6e5 };
static const uint64_t base_y[5] = { 0x6666666666658, 0x4cccccccccccc, 0x1999999999999, 0x3333333333333, 0x6666666666666 };
/* clang-format on */

static struct ed25519_table *base_table[2];

/* Returns the lanes of b where mask has a bit, else those of a. */
IFMA static struct point blend(__mmask8 mask, struct point a, struct point b)
{
	a.x = fe_blend(mask, a.x, b.x);
	a.y = fe_blend(mask, a.y, b.y);
	a.z = fe_blend(mask, a.z, b.z);
	a.t = fe_blend(mask, a.t, b.t);
	return a;
}

/* Where a table has its first row of a place. */
static uint64_t *rows_of(struct ed25519_table *t, int place)
{
	return t->row + (size_t)place * COMB_ROWS(t->bits) * COMB_WORDS;
}

/* Writes TOGETHER points as rows from..from + TOGETHER - 1 of eight places. */
IFMA static void store_points(struct ed25519_table *t, int place, int from,
	const struct point p[TOGETHER])
{
	const size_t apart = COMB_ROWS(t->bits) * COMB_WORDS;
	struct fe before[TOGETHER], product = fe_small(1);

	for (int i = 0; i < TOGETHER; i++) {
		before[i] = product;
		product = fe_mul(product, p[i].z);
	}
	product = fe_invert(product);
	for (int i = TOGETHER - 1; i >= 0; i--) {
		struct fe inverse = fe_mul(product, before[i]);
		struct fe x = fe_mul(p[i].x, inverse), y = fe_mul(p[i].y, inverse);
		struct fe three[3] = { fe_add(y, x), fe_sub(y, x),
			fe_mul(fe_mul(x, y), fe_set(curve_2d)) };

		store_rows(rows_of(t, place) + (size_t)(from + i) * COMB_WORDS, apart,
			three, 3);
		product = fe_mul(product, p[i].z);
	}
}

/* Fills eight places, one from each lane's point. */
IFMA static void fill_places(struct ed25519_table *t, int place,
	const struct point *point)
{
	struct point p[TOGETHER], sum = *point;
	struct addend one = addend_of(point);

	for (int lane = 0; lane < FE_LANES; lane++) /* sum and diff of the identity */
		rows_of(t, place + lane)[0] = rows_of(t, place + lane)[5] = 1;
	for (int from = 1; from < (int)COMB_ROWS(t->bits); from += TOGETHER) {
		for (int i = 0; i < TOGETHER; i++) {
			p[i] = sum;
			add(&sum, &one, 0, true);
		}
		store_points(t, place, from, p);
	}
}

IFMA struct ed25519_table *comb_new(const struct point *point, bool wide)
{
	int bits = wide ? COMB_BITS_WIDE : COMB_BITS, last = COMB_PLACES(bits) - FE_LANES;
	size_t bytes = sizeof(struct ed25519_table) +
		(size_t)COMB_PLACES(bits) * COMB_ROWS(bits) * COMB_WORDS * 8;
	struct ed25519_table *t = aligned_alloc(64, bytes);
	struct point p = *point, lanes = p;
	int place = 0;

	if (!t)
		return NULL;
	memset(t, 0, bytes);
	t->bits = bits;
	/* eight places at a time; where they are no multiple of eight, the last eight share some with
	 * those before, and get the same rows again */
	for (;;) {
		int next = place + FE_LANES < last ? place + FE_LANES : last;
		struct point from = p;

		for (int i = 0; i < FE_LANES; i++) {
			lanes = blend((__mmask8)(1u << i), lanes, p);
			double_times(&p, bits);
			if (place + i + 1 == next)
				from = p;
		}
		fill_places(t, place, &lanes);
		if (place == last)
			return t;
		p = from;
		place = next;
	}
}

IFMA static void make_base(bool wide)
{
	struct point b = { .x = fe_set(base_x), .y = fe_set(base_y), .z = fe_small(1) };

	b.t = fe_mul(b.x, b.y);
	base_table[wide] = comb_new(&b, wide);
}

static void make_narrow(void)
{
	make_base(false);
}

static void make_wide(void)
{
	make_base(true);
}

const struct ed25519_table *comb_base(bool wide)
{
	static pthread_once_t once[2] = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT };

	pthread_once(&once[wide], wide ? make_wide : make_narrow);
	return base_table[wide];
}
#endif
