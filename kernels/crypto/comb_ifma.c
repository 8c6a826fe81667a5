/* comb_ifma.c - makes the tables of the base point and of keys whose signatures come by the
 * hundred. */
#include "kernels/crypto/comb_ifma.h"

#ifdef __x86_64__
#include <pthread.h>

#define TOGETHER 32 /* points that share an inversion */

/* clang-format off */
static const uint64_t base_x[5] = { 0x62d608f25d51a, 0x412a4b4f6592a, 0x75b7171a4b31d, 0x1ff60527118fe, 0x216936d3cd6e5 };
static const uint64_t base_y[5] = { 0x6666666666658, 0x4cccccccccccc, 0x1999999999999, 0x3333333333333, 0x6666666666666 };
/* clang-format on */

static struct ed25519_table base_table;

/* Returns the lanes of b where mask has a bit, else those of a. */
IFMA static struct point blend(__mmask8 mask, struct point a, struct point b)
{
	a.x = fe_blend(mask, a.x, b.x);
	a.y = fe_blend(mask, a.y, b.y);
	a.z = fe_blend(mask, a.z, b.z);
	a.t = fe_blend(mask, a.t, b.t);
	return a;
}

/* Writes TOGETHER points as rows from..from + TOGETHER - 1 of eight places. */
IFMA static void store_points(struct ed25519_table *t, int place, int from,
	const struct point p[TOGETHER])
{
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

		store_rows(t->row[place][from + i], (size_t)COMB_ROWS * COMB_WORDS, three,
			3);
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
		t->row[place + lane][0][0] = t->row[place + lane][0][5] = 1;
	for (int from = 1; from < COMB_ROWS; from += TOGETHER) {
		for (int i = 0; i < TOGETHER; i++) {
			p[i] = sum;
			add(&sum, &one, 0, true);
		}
		store_points(t, place, from, p);
	}
}

IFMA void comb_fill(struct ed25519_table *t, const struct point *point)
{
	struct point p = *point;

	for (int place = 0; place < COMB_PLACES; place += FE_LANES) {
		struct point lanes = p;

		for (int i = 0; i < FE_LANES; i++) {
			lanes = blend((__mmask8)(1u << i), lanes, p);
			double_times(&p, COMB_BITS);
		}
		fill_places(t, place, &lanes);
	}
}

IFMA static void fill_base(void)
{
	struct point b = { .x = fe_set(base_x), .y = fe_set(base_y), .z = fe_small(1) };

	b.t = fe_mul(b.x, b.y);
	comb_fill(&base_table, &b);
}

const struct ed25519_table *comb_base(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_base);
	return &base_table;
}
#endif
