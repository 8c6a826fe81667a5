/* frames.c - a line of three numbers, then bytes. */
#include "cmd/rnp-register/customer/frames.h"

#include <string.h>

#include "common/base/err.h"

/* longer numbers are none of a log's */
#define NUMBER_MAX INT64_C(100000000000000000)

static int no_frames(void)
{
	return err_set(EX_UNAVAILABLE, "what comes is no log of a registry");
}

/* Reads a number and the byte behind it. */
static bool take_number(const char **p, char behind, int64_t *out)
{
	const char *from = *p;

	*out = 0;
	while (**p >= '0' && **p <= '9' && *out < NUMBER_MAX)
		*out = *out * 10 + (*(*p)++ - '0');
	return *p > from && *(*p)++ == behind;
}

/* Reads a whole line, which ends with a newline and a NUL. */
static int read_head(struct frames *f)
{
	const char *p = f->head;
	int64_t rank, left;

	f->nhead = 0;
	if (strcmp(p, "end\n") == 0) {
		f->ended = true;
		return 0;
	}
	if (!take_number(&p, ' ', &rank) || !take_number(&p, ' ', &f->at) ||
		!take_number(&p, '\n', &left) || *p || rank >= FRAMES_RANKS_MAX)
		return no_frames();
	f->rank = (int)rank;
	f->left = left;
	return 0;
}

int frames_read(struct frames *f, const char *data, size_t len, frames_fn fn, void *ctx)
{
	while (len) {
		size_t n;

		if (f->ended)
			return no_frames();
		if (!f->left) {
			f->head[f->nhead++] = *data++;
			len--;
			f->head[f->nhead] = '\0';
			if (f->head[f->nhead - 1] == '\n' ?
					read_head(f) < 0 :
					f->nhead + 1 == sizeof f->head)
				return no_frames();
			continue;
		}
		n = (int64_t)len < f->left ? len : (size_t)f->left;
		if (fn(ctx, f->rank, f->at, data, n) < 0)
			return -1;
		f->at += (int64_t)n;
		f->left -= (int64_t)n;
		data += n;
		len -= n;
	}
	return 0;
}
