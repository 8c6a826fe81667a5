/* work.c - memory, models and charges of requests. */
#include "cmd/rnp-serve/server/work.h"

#include <malloc.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* memory that a request takes for each byte of its body, at most: values of JSON, tokens, text */
#define ROOM_PER_BYTE 8
#define SMALL_BODY    65536 /* the reserve has room for it */
#define LARGE_BODY    ((size_t)1 << 20)

/* What a key that asks in vain pays: a token for so many bytes that were read. */
#define BYTES_PER_TOKEN 256
/* tokens that are only made cost so many times less than those that are computed */
#define MADE_PER_TOKEN 16
/* and one for so much of a processor's time: a schema is compiled before any limit is taken from */
#define NS_PER_TOKEN 1000000

bool work_lacks_memory(const struct httpd_request *q, struct api_error *e)
{
	(void)mem_ran_out(); /* for an earlier one */
	if (!mem_is_short() &&
		(q->body.len < SMALL_BODY || mem_has_room(q->body.len * ROOM_PER_BYTE)))
		return false;
	api_error_set(e, 503, "out_of_memory", NULL, "out of memory");
	return true;
}

bool work_lacked_memory(struct api_error *e)
{
	if (mem_ran_out())
		return api_error_set(e, 503, "out_of_memory", NULL, "out of memory") < 0;
	return false;
}

struct model_slot *work_take_model(struct server *s, const char *name, uint32_t *adapter,
	struct api_error *e)
{
	struct model_slot *m = model_pool_find(&s->pool, name, adapter, e);

	return m && model_pool_take(&s->pool, m, e) == 0 ? m : NULL;
}

void work_give_memory(const struct httpd_request *q)
{
	if (q->body_bytes >= LARGE_BODY)
		malloc_trim(0);
}

void work_charge(struct server *s, struct api_key *key, const struct httpd_request *q,
	size_t made)
{
	if (key)
		keys_charge(&s->keys, key,
			q->body_bytes / BYTES_PER_TOKEN + made / MADE_PER_TOKEN,
			clock_mono_ns());
}

int work_constrain(struct constraint **out, struct server *s, struct model_slot *m,
	const struct request *ask, struct api_key *key, struct httpd_reply *r,
	int64_t *ns, struct api_error *e)
{
	int64_t before;
	int wait_s = 1, rc;

	/* again: others of the key may have come since its head was read */
	if (key && keys_may_ask(&s->keys, key, clock_mono_ns(), &wait_s) < 0) {
		r->retry_after_s = wait_s;
		return api_error_set(e, 429, "rate_limit_exceeded", NULL, "%s",
			err_get()->text);
	}
	before = clock_thread_ns();
	rc = constraint_open(out, m, ask, e);
	*ns += clock_thread_ns() - before;
	return rc;
}

void work_charge_time(struct server *s, struct api_key *key, int64_t ns)
{
	if (key && ns >= NS_PER_TOKEN)
		keys_charge(&s->keys, key, (uint64_t)(ns / NS_PER_TOKEN),
			clock_mono_ns());
}
