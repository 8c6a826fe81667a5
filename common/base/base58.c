/* base58.c - converts between bytes and base58, several digits at a time. */
#include "common/base/base58.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Five base-58 digits at a time: the largest power of 58 below 2^32. */
#define GROUP       5
#define GROUP_POWER UINT32_C(656356768) /* 58^5 */
#define LIMBS_MAX   (BASE58_BYTES_MAX / 4)
#define DIGITS_MAX  (BASE58_BYTES_MAX * 138 / 100 + 1 + GROUP)

static const char alphabet[] =
	"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/* When decoding, ten: the largest power below 2^64, as products of 64 bits have 128. */
#define WIDE_POWER  UINT64_C(430804206899405824) /* 58^10 */
#define WIDE_DIGITS (2 * GROUP)
#define WIDE_MAX    (BASE58_BYTES_MAX / 8)

/* 32-bit limbs of a number. */
struct number {
	uint32_t limbs[LIMBS_MAX];
	size_t n;
};

/* 64-bit limbs, which begin with the least significant. */
struct wide {
	uint64_t limbs[WIDE_MAX];
	size_t n;
};

static void number_from_bytes(struct number *to, const unsigned char *data, size_t len)
{
	to->n = (len + 3) / 4;
	memset(to->limbs, 0, to->n * sizeof *to->limbs);
	for (size_t i = 0; i < len; i++) {
		size_t from_end = len - 1 - i;

		to->limbs[to->n - 1 - from_end / 4] |= (uint32_t)data[i]
			<< from_end % 4 * 8;
	}
}

/* Divides by 58^5 and returns the remainder. */
static uint32_t divide(struct number *a)
{
	size_t zeros = 0;
	uint64_t rest = 0;

	for (size_t i = 0; i < a->n; i++) {
		rest = rest << 32 | a->limbs[i];
		a->limbs[i] = (uint32_t)(rest / GROUP_POWER);
		rest %= GROUP_POWER;
	}
	while (zeros < a->n && a->limbs[zeros] == 0)
		zeros++;
	a->n -= zeros;
	memmove(a->limbs, a->limbs + zeros, a->n * sizeof *a->limbs);
	return (uint32_t)rest;
}

size_t base58_encode(char *out, const unsigned char *data, size_t len)
{
	char digits[DIGITS_MAX], *end = digits + sizeof digits, *at = end;
	struct number a;
	size_t zeros = 0, n;

	while (zeros < len && data[zeros] == 0)
		zeros++;
	number_from_bytes(&a, data + zeros, len - zeros);
	while (a.n) {
		uint32_t group = divide(&a);

		for (int i = 0; i < GROUP; i++, group /= 58)
			*--at = alphabet[group % 58];
	}
	while (at < end && *at == alphabet[0]) /* leading zeros of the first group */
		at++;
	n = (size_t)(end - at);
	memset(out, alphabet[0], zeros);
	memcpy(out + zeros, at, n);
	out[zeros + n] = '\0';
	return zeros + n;
}

/* Value of a digit plus one; 0 elsewhere. A table, because digits are random: branches on them
 * are mispredicted, which took as long as the arithmetic. */
static const unsigned char values[256] = { ['1'] = 1,
	['2'] = 2,
	['3'] = 3,
	['4'] = 4,
	['5'] = 5,
	['6'] = 6,
	['7'] = 7,
	['8'] = 8,
	['9'] = 9,
	['A'] = 10,
	['B'] = 11,
	['C'] = 12,
	['D'] = 13,
	['E'] = 14,
	['F'] = 15,
	['G'] = 16,
	['H'] = 17,
	['J'] = 18,
	['K'] = 19,
	['L'] = 20,
	['M'] = 21,
	['N'] = 22,
	['P'] = 23,
	['Q'] = 24,
	['R'] = 25,
	['S'] = 26,
	['T'] = 27,
	['U'] = 28,
	['V'] = 29,
	['W'] = 30,
	['X'] = 31,
	['Y'] = 32,
	['Z'] = 33,
	['a'] = 34,
	['b'] = 35,
	['c'] = 36,
	['d'] = 37,
	['e'] = 38,
	['f'] = 39,
	['g'] = 40,
	['h'] = 41,
	['i'] = 42,
	['j'] = 43,
	['k'] = 44,
	['m'] = 45,
	['n'] = 46,
	['o'] = 47,
	['p'] = 48,
	['q'] = 49,
	['r'] = 50,
	['s'] = 51,
	['t'] = 52,
	['u'] = 53,
	['v'] = 54,
	['w'] = 55,
	['x'] = 56,
	['y'] = 57,
	['z'] = 58 };

/* Computes a * factor + term. Returns false when the result needs more limbs. */
static bool multiply_add(struct wide *a, uint64_t factor, uint64_t term)
{
	unsigned __int128 carry = term;

	for (size_t i = 0; i < a->n; i++) {
		carry += (unsigned __int128)a->limbs[i] * factor;
		a->limbs[i] = (uint64_t)carry;
		carry >>= 64;
	}
	if (!carry)
		return true;
	if (a->n == WIDE_MAX)
		return false;
	a->limbs[a->n++] = (uint64_t)carry;
	return true;
}

/* Computes a number of few digits. Returns false if one is none. */
static inline bool digits(const char *text, int n, uint64_t *out)
{
	uint64_t number = 0, none = 0;

	for (int i = 0; i < n; i++) {
		uint64_t v = (uint64_t)values[(unsigned char)text[i]] - 1;

		none |= v; /* 0 - 1, whose highest bit is set */
		number = number * 58 + v;
	}
	*out = number;
	return !(none >> 63);
}

static bool number_from_digits(struct wide *to, const char *text)
{
	size_t n = strlen(text);
	uint64_t high, low, factor = 1;

	to->n = 0;
	/* both halves of ten digits at the same time: each digit waits for the one before it */
	for (; n >= WIDE_DIGITS; n -= WIDE_DIGITS, text += WIDE_DIGITS)
		if (!digits(text, GROUP, &high) || !digits(text + GROUP, GROUP, &low) ||
			!multiply_add(to, WIDE_POWER, high * GROUP_POWER + low))
			return false;
	for (size_t i = 0; i < n; i++)
		factor *= 58;
	return digits(text, (int)n, &low) && multiply_add(to, factor, low);
}

int base58_decode(unsigned char *out, size_t max, const char *text)
{
	unsigned char bytes[BASE58_BYTES_MAX];
	struct wide a;
	size_t zeros = 0, n;

	if (max > BASE58_BYTES_MAX)
		max = BASE58_BYTES_MAX;
	while (text[zeros] == alphabet[0])
		zeros++;
	if (!number_from_digits(&a, text + zeros))
		return -1;
	for (size_t i = 0; i < a.n; i++)
		for (int k = 0; k < 8; k++)
			bytes[(a.n - i) * 8 - 1 - (size_t)k] =
				(unsigned char)(a.limbs[i] >> 8 * k);
	n = a.n * 8;
	while (n && !bytes[a.n * 8 - n])
		n--;
	if (zeros > max || n > max - zeros)
		return -1;
	memset(out, 0, zeros);
	memcpy(out + zeros, bytes + a.n * 8 - n, n);
	return (int)(zeros + n);
}
