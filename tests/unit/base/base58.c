/* base58.c - known texts, every length there and back, and what is refused. */
#include "common/base/base58.h"

#include "common/base/rng.h"
#include "tests/unit/test.h"

/* draft-msporny-base58-03, test vectors, and zeros. */
static void check_known(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text;
	} known[] = {
		{ "", 0, "" },
		{ "\0", 1, "1" },
		{ "\0\0\0", 3, "111" },
		{ "Hello World!", 12, "2NEpo7TZRRrLZSi2U" },
		{ "The quick brown fox jumps over the lazy dog.", 44,
			"USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z" },
		{ "\0\0\x28\x7f\xb4\xcd", 6, "11233QC4" },
		{ "\xff", 1, "5Q" },
		{ "\x39", 1, "z" },
		{ "\x3a", 1, "21" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		unsigned char back[64];
		char text[128];

		CHECK_I64((int64_t)strlen(known[i].text),
			(int64_t)base58_encode(text,
				(const unsigned char *)known[i].bytes, known[i].len));
		CHECK_TEXT(known[i].text, text);
		CHECK_I64((int64_t)known[i].len, base58_decode(back, sizeof back, text));
		CHECK(memcmp(back, known[i].bytes, known[i].len) == 0);
	}
}

/* One digit at a time, as the definition has it. */
static void encode_slowly(char *out, const unsigned char *data, size_t len)
{
	static const char alphabet[] =
		"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	unsigned char digits[200] = { 0 };
	size_t zeros = 0, n = 0;

	while (zeros < len && !data[zeros])
		zeros++;
	for (size_t i = zeros; i < len; i++) {
		unsigned carry = data[i];

		for (size_t k = 0; k < n; k++, carry /= 58) {
			carry += (unsigned)digits[k] << 8;
			digits[k] = (unsigned char)(carry % 58);
		}
		for (; carry; carry /= 58)
			digits[n++] = (unsigned char)(carry % 58);
	}
	memset(out, '1', zeros);
	for (size_t k = 0; k < n; k++)
		out[zeros + k] = alphabet[digits[n - 1 - k]];
	out[zeros + n] = '\0';
}

static void check_there_and_back(void)
{
	unsigned char data[BASE58_BYTES_MAX], back[BASE58_BYTES_MAX];
	char text[BASE58_BYTES_MAX * 138 / 100 + 2], slow[200];
	struct rng r;

	rng_seed(&r, 58, 0);
	for (size_t len = 0; len <= BASE58_BYTES_MAX; len++) {
		for (int i = 0; i < 40; i++) {
			size_t zeros = rng_below(&r, len + 1);

			rng_bytes(&r, data, len);
			if (i == 0)
				memset(data, 0xff, len);
			else if (i < 10)
				memset(data, 0, zeros);
			CHECK(base58_encode(text, data, len) == strlen(text));
			encode_slowly(slow, data, len);
			CHECK_TEXT(slow, text);
			CHECK_I64((int64_t)len, base58_decode(back, len, text));
			CHECK(memcmp(data, back, len) == 0);
			if (len)
				CHECK_I64(-1, base58_decode(back, len - 1, text));
		}
	}
}

static void check_refused(void)
{
	unsigned char back[BASE58_BYTES_MAX];
	char text[400], one[2] = { 0 };
	int good = 0;

	for (int c = 1; c < 256; c++) {
		one[0] = (char)c;
		good += base58_decode(back, 1, one) == 1;
	}
	CHECK_I64(58, good);
	CHECK_I64(-1, base58_decode(back, sizeof back, "2NEpo7TZRRrLZSi2U "));
	CHECK_I64(-1, base58_decode(back, sizeof back, "1l"));
	memset(text, 'z', sizeof text); /* too large for any room */
	text[sizeof text - 1] = '\0';
	CHECK_I64(-1, base58_decode(back, 1000, text));
	memset(text, '1', sizeof text - 1);
	CHECK_I64(-1, base58_decode(back, 1000, text));
}

int main(void)
{
	check_known();
	check_there_and_back();
	check_refused();
	TEST_END();
}
