/* frac.c - adds, multiplies and divides exact fractions of 128 bits. */
#include "cmd/rnp-reward/policy/frac.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/num.h"

#define NANO 1000000000

static uint64_t gcd64(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

u128 u128_gcd(u128 a, u128 b)
{
	while (b) {
		u128 r;

		if (!(a >> 64) && !(b >> 64))
			return gcd64((uint64_t)a, (uint64_t)b);
		r = a % b;
		a = b;
		b = r;
	}
	return a;
}

void frac_reduce(struct frac *a)
{
	u128 g = u128_gcd(a->num, a->den);

	a->num /= g;
	a->den /= g;
}

struct frac frac_of(uint64_t num, uint64_t den)
{
	struct frac a = { num, den };

	frac_reduce(&a);
	return a;
}

int frac_parse(const char *text, const char *what, struct frac *out)
{
	/* nine decimal places do not fit beside a whole number this large */
	bool whole = text[strspn(text, "0123456789")] == '\0';
	int64_t n;

	if (num_decimal(text, what, whole ? 0 : 9, 0, &n) < 0)
		return -1;
	if (n < 0)
		return err_set(EX_DATAERR, "%s: '%.40s' is negative", what, text);
	*out = frac_of((uint64_t)n, whole ? 1 : NANO);
	return 0;
}

static bool mul(u128 a, u128 b, u128 *out)
{
	return !__builtin_mul_overflow(a, b, out);
}

/* Computes a +- b over the least common denominator. */
static bool combine(struct frac *out, const struct frac *a, const struct frac *b,
	bool minus)
{
	u128 g, x, y, den;

	if (a->den == b->den) {
		g = a->den;
	} else if (a->den % b->den == 0) {
		g = b->den;
	} else {
		g = u128_gcd(a->den, b->den);
	}
	if (!mul(a->num, b->den / g, &x) || !mul(b->num, a->den / g, &y) ||
		!mul(a->den, b->den / g, &den))
		return false;
	if (minus) {
		if (x < y)
			bug("difference of fractions below 0");
		x -= y;
	} else if (__builtin_add_overflow(x, y, &x)) {
		return false;
	}
	*out = (struct frac){ x, den };
	return true;
}

static bool add_or_sub(struct frac *out, struct frac a, struct frac b, bool minus)
{
	if (combine(out, &a, &b, minus))
		return true;
	frac_reduce(&a);
	frac_reduce(&b);
	return combine(out, &a, &b, minus);
}

bool frac_add(struct frac *out, struct frac a, struct frac b)
{
	return add_or_sub(out, a, b, false);
}

bool frac_sub(struct frac *out, struct frac a, struct frac b)
{
	return add_or_sub(out, a, b, true);
}

bool frac_mul(struct frac *out, struct frac a, struct frac b)
{
	struct frac cross_a, cross_b;

	if (mul(a.num, b.num, &out->num) && mul(a.den, b.den, &out->den))
		return true;
	/* if two reduced fractions are cancelled crosswise, their product is reduced */
	frac_reduce(&a);
	frac_reduce(&b);
	cross_a = (struct frac){ a.num, b.den };
	cross_b = (struct frac){ b.num, a.den };
	frac_reduce(&cross_a);
	frac_reduce(&cross_b);
	return mul(cross_a.num, cross_b.num, &out->num) &&
		mul(cross_a.den, cross_b.den, &out->den);
}

bool frac_div(struct frac *out, struct frac a, struct frac b)
{
	if (!b.num)
		bug("fraction divided by 0");
	return frac_mul(out, a, (struct frac){ b.den, b.num });
}

/* Compares whole parts, then the reciprocals of the remainders, as continued fractions do:
 * without products, so nothing can overflow. */
int frac_cmp(struct frac a, struct frac b)
{
	int sign = 1;

	for (;;) {
		u128 whole_a = a.num / a.den, whole_b = b.num / b.den;

		if (whole_a != whole_b)
			return whole_a < whole_b ? -sign : sign;
		a.num %= a.den;
		b.num %= b.den;
		if (!a.num || !b.num)
			return !a.num && !b.num ? 0 : (!a.num ? -sign : sign);
		a = (struct frac){ a.den, a.num };
		b = (struct frac){ b.den, b.num };
		sign = -sign;
	}
}

bool frac_floor(struct frac a, uint64_t unit, int64_t *out)
{
	u128 product, whole;

	if (!mul(a.num, unit, &product)) {
		struct frac scaled;

		if (!frac_mul(&scaled, a, (struct frac){ unit, 1 }))
			return false;
		product = scaled.num;
		a.den = scaled.den;
	}
	/* 64-bit division is several times faster, and usually sufficient */
	if (!(product >> 64) && !(a.den >> 64))
		whole = (uint64_t)product / (uint64_t)a.den;
	else
		whole = product / a.den;
	if (whole > INT64_MAX)
		return false;
	*out = (int64_t)whole;
	return true;
}

int64_t frac_share(int64_t total, u128 w, u128 sum, u128 *rest)
{
	u128 product, r = 0;
	int64_t q = 0;

	if (mul((u128)total, w, &product)) {
		*rest = product % sum;
		return (int64_t)(product / sum);
	}
	/* schoolbook multiplication and division at once, one bit of total at a time */
	for (int bit = 62; bit >= 0; bit--) {
		r = 2 * r + ((total >> bit) & 1 ? w : 0); /* < 3 x sum */
		q *= 2;
		for (; r >= sum; r -= sum)
			q++;
	}
	*rest = r;
	return q;
}
