/* pool.c - the states of a server's models: not loaded, being loaded by one thread while others
 * wait, or loaded and used by some requests. */
#include "cmd/rnp-serve/model/pool.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

void model_pool_init(struct model_pool *m, uint32_t count,
	const struct model_slot_options *options, int64_t idle_ns, uint64_t bytes)
{
	*m = (struct model_pool){ .at = xcalloc((size_t)count + 1, sizeof *m->at),
		.options = *options,
		.idle_ns = idle_ns,
		.bytes = bytes ? bytes : UINT64_MAX };
	m->options.must_fit = idle_ns > 0 || bytes;
	m->options.alone = count == 1;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->loaded, NULL);
}

void model_pool_release(struct model_pool *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		model_slot_release(&m->at[i]);
	free(m->at);
	m->at = NULL;
	m->count = 0;
}

struct model_slot *model_pool_find(struct model_pool *m, const char *name,
	uint32_t *adapter, struct api_error *e)
{
	*adapter = 0;
	if (!name && m->count == 1)
		return &m->at[0];
	for (uint32_t i = 0; name && i < m->count; i++)
		if (model_slot_is(&m->at[i], name, adapter))
			return &m->at[i];
	if (name)
		api_error_set(e, 404, "model_not_found", "model",
			"model '%.100s' is not here: GET /v1/models lists those that are",
			name);
	else
		api_error_set(e, 400, "missing_required_parameter", "model",
			"'model' is missing");
	return NULL;
}

/* Returns the model that nobody uses and has not been used for the longest time, or NULL. The
 * caller holds the lock. */
static struct model_slot *idlest(const struct model_pool *m)
{
	struct model_slot *oldest = NULL;

	for (uint32_t i = 0; i < m->count; i++) {
		struct model_slot *one = &m->at[i];

		if (one->state == MODEL_SLOT_LOADED && !one->users &&
			(!oldest || one->last_used_ns < oldest->last_used_ns))
			oldest = one;
	}
	return oldest;
}

/* Unloads it. Returns false if all are in use. */
static bool unload_one(struct model_pool *m)
{
	struct model_slot *oldest = idlest(m);

	if (oldest)
		model_slot_unload(oldest);
	return oldest != NULL;
}

/* What the loaded models leave of the memory for all. */
static uint64_t room_of(const struct model_pool *m)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i].state == MODEL_SLOT_LOADED)
			used += model_slot_bytes(&m->at[i]);
	return used < m->bytes ? m->bytes - used : 0;
}

/* Whether a model did not fit: by its plan, or as others took the memory that was free. */
static bool lacks_memory(void)
{
	return err_get()->code == EX_TEMPFAIL || err_get()->code == EX_OSERR;
}

/* Loads a model; others that nobody uses make room for it. The caller holds the lock, which is
 * released meanwhile. */
static int load(struct model_pool *m, struct model_slot *one)
{
	struct model_slot_options options = m->options;
	int rc;

	m->loading = true;
	one->state = MODEL_SLOT_LOADING;
	do {
		options.room_bytes = room_of(m);
		options.others_idle = m->options.must_fit && idlest(m);
		pthread_mutex_unlock(&m->lock);
		rc = model_slot_load(one, &options);
		pthread_mutex_lock(&m->lock);
	} while (rc < 0 && m->options.must_fit && lacks_memory() && unload_one(m));
	one->state = rc == 0 ? MODEL_SLOT_LOADED : MODEL_SLOT_UNLOADED;
	one->last_used_ns = clock_mono_ns();
	m->loading = false;
	pthread_cond_broadcast(&m->loaded);
	return rc;
}

int model_pool_load(struct model_pool *m, struct model_slot *one)
{
	int rc;

	pthread_mutex_lock(&m->lock);
	rc = load(m, one);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static int failed(const struct model_slot *one, struct api_error *e)
{
	bool full = lacks_memory();

	prog_error("model '%s': %s", one->name, err_get()->text);
	return api_error_set(e, 503, full ? "model_does_not_fit" : "model_not_loaded",
		"model",
		full ? "model '%s' does not fit into memory beside those in use" :
		       "model '%s' cannot be loaded",
		one->name);
}

int model_pool_take(struct model_pool *m, struct model_slot *one, struct api_error *e)
{
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	while (one->state != MODEL_SLOT_LOADED && m->loading)
		pthread_cond_wait(&m->loaded, &m->lock);
	if (one->state != MODEL_SLOT_LOADED)
		rc = load(m, one);
	if (rc == 0)
		one->users++;
	pthread_mutex_unlock(&m->lock);
	return rc == 0 ? 0 : failed(one, e);
}

void model_pool_give(struct model_pool *m, struct model_slot *one)
{
	pthread_mutex_lock(&m->lock);
	one->users--;
	one->last_used_ns = clock_mono_ns();
	pthread_mutex_unlock(&m->lock);
}

void model_pool_unload_idle(struct model_pool *m)
{
	int64_t before = clock_mono_ns() - m->idle_ns;

	if (!m->idle_ns)
		return;
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i].state == MODEL_SLOT_LOADED && !m->at[i].users &&
			m->at[i].last_used_ns < before)
			model_slot_unload(&m->at[i]);
	pthread_mutex_unlock(&m->lock);
}

bool model_pool_count(struct model_pool *m, struct model_slot *one,
	struct lm_service_counts *out)
{
	bool loaded;

	pthread_mutex_lock(&m->lock);
	loaded = one->state == MODEL_SLOT_LOADED;
	if (loaded)
		model_slot_count(one, out);
	else
		*out = one->past; /* one that is being loaded has no counts yet */
	pthread_mutex_unlock(&m->lock);
	return loaded;
}

bool model_pool_failing(struct model_pool *m, int64_t now_ns)
{
	struct lm_service_counts c;
	bool failing = false;

	for (uint32_t i = 0; i < m->count && !failing; i++)
		failing = model_pool_count(m, &m->at[i], &c) &&
			model_pool_fails(&c.engine, now_ns);
	return failing;
}

bool model_pool_packing(struct model_pool *m, const struct model_slot *one)
{
	bool packing;

	pthread_mutex_lock(&m->lock);
	packing = one->state == MODEL_SLOT_LOADED &&
		(lm_weights_packing(one->handles.weights) ||
			(one->draft && lm_weights_packing(one->draft)));
	pthread_mutex_unlock(&m->lock);
	return packing;
}
