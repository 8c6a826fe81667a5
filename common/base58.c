#include "common/base58.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] =
	"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

#define DIGITS_MAX (BASE58_BYTES_MAX * 138 / 100 + 1)

size_t base58_encode(char *out, const unsigned char *data, size_t len)
{
	unsigned char digits[DIGITS_MAX]; /* base 58, least significant first */
	size_t zeros = 0, n = 0;

	while (zeros < len && data[zeros] == 0)
		zeros++;
	for (size_t i = zeros; i < len; i++) {
		unsigned carry = data[i];

		for (size_t k = 0; k < n; k++) {
			carry += (unsigned)digits[k] << 8;
			digits[k] = (unsigned char)(carry % 58);
			carry /= 58;
		}
		for (; carry; carry /= 58)
			digits[n++] = (unsigned char)(carry % 58);
	}
	memset(out, alphabet[0], zeros);
	for (size_t k = 0; k < n; k++)
		out[zeros + k] = alphabet[digits[n - 1 - k]];
	out[zeros + n] = '\0';
	return zeros + n;
}

int base58_decode(unsigned char *out, size_t max, const char *text)
{
	unsigned char bytes[BASE58_BYTES_MAX]; /* least significant first */
	size_t zeros = 0, n = 0;

	if (max > BASE58_BYTES_MAX)
		max = BASE58_BYTES_MAX;
	while (text[zeros] == alphabet[0])
		zeros++;
	if (zeros > max)
		return -1;
	for (const char *s = text + zeros; *s; s++) {
		const char *at = strchr(alphabet, *s);
		unsigned carry;

		if (!at)
			return -1;
		carry = (unsigned)(at - alphabet);
		for (size_t k = 0; k < n; k++) {
			carry += bytes[k] * 58u;
			bytes[k] = (unsigned char)carry;
			carry >>= 8;
		}
		for (; carry; carry >>= 8) {
			if (zeros + n == max)
				return -1;
			bytes[n++] = (unsigned char)carry;
		}
	}
	memset(out, 0, zeros);
	for (size_t k = 0; k < n; k++)
		out[zeros + k] = bytes[n - 1 - k];
	return (int)(zeros + n);
}
