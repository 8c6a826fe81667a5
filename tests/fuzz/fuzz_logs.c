/* fuzz_logs.c - fuzz target: a log as a registry sends it, with what a job printed.
 *
 * uses: cmd/rnp-register
 *
 * It checks that frames are read the same in pieces as at once; that what is shown has no
 * control characters but line ends and tabs, and is UTF-8; and that it, too, does not depend
 * on the pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/customer/frames.h"
#include "cmd/rnp-register/customer/harmless.h"
#include "common/base/err.h"
#include "common/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* What is shown of a rank, and where its bytes were. */
struct shown {
	struct harmless harmless;
	struct buf text;
	int64_t sum;
};

static int show(void *ctx, int rank, int64_t at, const char *data, size_t len)
{
	struct shown *s = ctx;

	must(rank >= 0 && rank < FRAMES_RANKS_MAX && at >= 0);
	for (size_t i = 0; i < len; i++)
		s->sum += (rank + 1) * (int64_t)((uint64_t)(at + (int64_t)i) % 1000003) *
			(unsigned char)data[i];
	harmless_add(&s->harmless, &s->text, data, len);
	return 0;
}

static bool read_log(const uint8_t *data, size_t size, size_t piece, struct shown *s)
{
	struct frames f = { .nhead = 0 };
	int rc = 0;

	memset(s, 0, sizeof *s);
	for (size_t at = 0; at < size && rc == 0; at += piece)
		rc = frames_read(&f, (const char *)data + at,
			size - at < piece ? size - at : piece, show, s);
	if (rc < 0)
		must(err_get()->code == EX_UNAVAILABLE);
	err_clear();
	harmless_end(&s->harmless, &s->text);
	return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shown whole, parts;
	bool good = read_log(data, size, size ? size : 1, &whole);

	must(read_log(data, size, 3, &parts) == good);
	must(whole.sum == parts.sum && whole.text.len == parts.text.len);
	must(!whole.text.len ||
		memcmp(whole.text.data, parts.text.data, whole.text.len) == 0);
	must(utf8_valid(buf_text(&whole.text), whole.text.len));
	for (size_t i = 0; i < whole.text.len; i++) {
		unsigned char c = (unsigned char)whole.text.data[i];

		must(c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f));
	}
	buf_release(&whole.text);
	buf_release(&parts.text);
	return 0;
}
