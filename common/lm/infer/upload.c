/* upload.c - see upload.h. */
#include "common/lm/infer/upload.h"

#include <string.h>

#include "kernels/dev/team.h"

#define GRAIN UINT64_C(131072) /* that a thread copies at least */

struct part {
	char *to;
	const char *from;
};

static void copy_part(void *work, uint64_t from, uint64_t to)
{
	const struct part *p = work;

	memcpy(p->to + from, p->from + from, to - from);
}

/* Returns whether memory was pinned. An error that is none of the copies' is forgotten. */
static bool pin(struct lm_upload *u, void **out)
{
	if (u->d->ops->pin(u->d, out, LM_UPLOAD_BYTES) == 0)
		return true;
	*out = NULL;
	u->d->error[0] = '\0';
	u->d->code = 0;
	return false;
}

void lm_upload_begin(struct lm_upload *u, struct dev *d)
{
	*u = (struct lm_upload){ .d = d };
	if (d->is_host || !pin(u, &u->stage[0]) || pin(u, &u->stage[1]))
		return;
	d->ops->unpin(d, u->stage[0]);
	u->stage[0] = NULL;
}

static int wait(struct lm_upload *u)
{
	if (!u->copying)
		return 0;
	u->copying = false;
	return u->d->ops->sync(u->d);
}

/* While a buffer is filled the other is copied; when the copy of this one begins, that of the other
 * has ended. */
static int pass_on(struct lm_upload *u, void *to, const void *host, uint64_t bytes)
{
	struct part p = { u->stage[u->turn], host };
	struct team_op op = { copy_part, &p, bytes, GRAIN, 1, 2 * GRAIN };

	team_run(&op, 1);
	if (wait(u) < 0 || u->d->ops->put_later(u->d, to, p.to, bytes) < 0)
		return -1;
	u->copying = true;
	u->turn = !u->turn;
	return 0;
}

int lm_upload_put(struct lm_upload *u, void *to, const void *host, uint64_t bytes)
{
	if (!u->stage[0])
		return u->d->ops->put(u->d, to, host, bytes);
	for (uint64_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < LM_UPLOAD_BYTES ? bytes - at : LM_UPLOAD_BYTES;
		if (pass_on(u, (char *)to + at, (const char *)host + at, n) < 0)
			return -1;
	}
	return 0;
}

int lm_upload_end(struct lm_upload *u)
{
	int rc = wait(u);

	u->d->ops->unpin(u->d, u->stage[0]);
	u->d->ops->unpin(u->d, u->stage[1]);
	u->stage[0] = u->stage[1] = NULL;
	return rc;
}
