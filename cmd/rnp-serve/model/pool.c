/* models.c - the states of a server's models: not loaded, being loaded by one thread while others
 * wait, or loaded and used by some requests. */
#include "cmd/rnp-serve/models.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

void models_init(struct models *m, uint32_t count, const struct served_options *options,
	int64_t idle_ns, uint64_t bytes)
{
	*m = (struct models){ .at = xcalloc((size_t)count + 1, sizeof *m->at),
		.options = *options,
		.idle_ns = idle_ns,
		.bytes = bytes ? bytes : UINT64_MAX };
	m->options.must_fit = idle_ns > 0 || bytes;
	m->options.alone = count == 1;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->loaded, NULL);
}

void models_release(struct models *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		served_release(&m->at[i]);
	free(m->at);
	m->at = NULL;
	m->count = 0;
}

struct served *models_find(struct models *m, const char *name, uint32_t *adapter,
	struct api_error *e)
{
	*adapter = 0;
	if (!name && m->count == 1)
		return &m->at[0];
	for (uint32_t i = 0; name && i < m->count; i++)
		if (served_is(&m->at[i], name, adapter))
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

/* Returns the model that nobody uses and has not been used for the longest time, or NULL. The caller holds the lock. */
static struct served *idlest(const struct models *m)
{
	struct served *oldest = NULL;

	for (uint32_t i = 0; i < m->count; i++) {
		struct served *one = &m->at[i];

		if (one->state == SERVED_LOADED && !one->users &&
			(!oldest || one->last_used_ns < oldest->last_used_ns))
			oldest = one;
	}
	return oldest;
}

/* Unloads it. Returns false if all are in use. */
static bool unload_one(struct models *m)
{
	struct served *oldest = idlest(m);

	if (oldest)
		served_unload(oldest);
	return oldest != NULL;
}

/* What the loaded models leave of the memory for all. */
static uint64_t room_of(const struct models *m)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i].state == SERVED_LOADED)
			used += served_bytes(&m->at[i]);
	return used < m->bytes ? m->bytes - used : 0;
}

/* Whether a model did not fit: by its plan, or as others took the memory that was free. */
static bool lacks_memory(void)
{
	return err_get()->code == EX_TEMPFAIL || err_get()->code == EX_OSERR;
}

/* Loads a model; others that nobody uses make room for it. The caller holds the lock, which is
 * released meanwhile. */
static int load(struct models *m, struct served *one)
{
	struct served_options options = m->options;
	int rc;

	m->loading = true;
	one->state = SERVED_LOADING;
	do {
		options.room_bytes = room_of(m);
		options.others_idle = m->options.must_fit && idlest(m);
		pthread_mutex_unlock(&m->lock);
		rc = served_load(one, &options);
		pthread_mutex_lock(&m->lock);
	} while (rc < 0 && m->options.must_fit && lacks_memory() && unload_one(m));
	one->state = rc == 0 ? SERVED_LOADED : SERVED_UNLOADED;
	one->last_used_ns = clock_mono_ns();
	m->loading = false;
	pthread_cond_broadcast(&m->loaded);
	return rc;
}

int models_load(struct models *m, struct served *one)
{
	int rc;

	pthread_mutex_lock(&m->lock);
	rc = load(m, one);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static int failed(const struct served *one, struct api_error *e)
{
	bool full = lacks_memory();

	prog_error("model '%s': %s", one->name, err_get()->text);
	return api_error_set(e, 503, full ? "model_does_not_fit" : "model_not_loaded",
		"model",
		full ? "model '%s' does not fit into memory beside those in use" :
		       "model '%s' cannot be loaded",
		one->name);
}

int models_take(struct models *m, struct served *one, struct api_error *e)
{
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	while (one->state != SERVED_LOADED && m->loading)
		pthread_cond_wait(&m->loaded, &m->lock);
	if (one->state != SERVED_LOADED)
		rc = load(m, one);
	if (rc == 0)
		one->users++;
	pthread_mutex_unlock(&m->lock);
	return rc == 0 ? 0 : failed(one, e);
}

void models_give(struct models *m, struct served *one)
{
	pthread_mutex_lock(&m->lock);
	one->users--;
	one->last_used_ns = clock_mono_ns();
	pthread_mutex_unlock(&m->lock);
}

void models_unload_idle(struct models *m)
{
	int64_t before = clock_mono_ns() - m->idle_ns;

	if (!m->idle_ns)
		return;
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < m->count; i++)
		if (m->at[i].state == SERVED_LOADED && !m->at[i].users &&
			m->at[i].last_used_ns < before)
			served_unload(&m->at[i]);
	pthread_mutex_unlock(&m->lock);
}

bool models_count(struct models *m, struct served *one, struct lm_service_counts *out)
{
	bool loaded;

	pthread_mutex_lock(&m->lock);
	loaded = one->state == SERVED_LOADED;
	if (loaded)
		served_count(one, out);
	else
		*out = one->past; /* one that is being loaded has no counts yet */
	pthread_mutex_unlock(&m->lock);
	return loaded;
}

bool models_failing(struct models *m, int64_t now_ns)
{
	struct lm_service_counts c;
	bool failing = false;

	for (uint32_t i = 0; i < m->count && !failing; i++)
		failing = models_count(m, &m->at[i], &c) &&
			models_fails(&c.engine, now_ns);
	return failing;
}

bool models_packing(struct models *m, const struct served *one)
{
	bool packing;

	pthread_mutex_lock(&m->lock);
	packing = one->state == SERVED_LOADED &&
		(lm_weights_packing(one->l.weights) ||
			(one->draft && lm_weights_packing(one->draft)));
	pthread_mutex_unlock(&m->lock);
	return packing;
}
