/* pool.h - the models of a server: loaded when a request needs one, unloaded when nobody has for
 * a while, or when another one needs the memory. Uses slot.h. */
#ifndef RNP_SERVE_MODEL_POOL_H
#define RNP_SERVE_MODEL_POOL_H

#include "cmd/rnp-serve/request/request.h"
#include "cmd/rnp-serve/model/slot.h"

struct model_pool {
	struct model_slot *at;
	uint32_t count;
	struct model_slot_options options;
	int64_t idle_ns; /* unloaded after this time without a request; 0: never */
	uint64_t bytes;  /* that all loaded ones may take together */
	/* protects what follows, and state, users and last_used_ns of all */
	pthread_mutex_t lock;
	pthread_cond_t loaded;
	bool loading; /* one model at a time */
};

/* Sets up `count` models without loading them; options are borrowed until release. With idle_ns or
 * bytes not 0, models have to fit into memory together: bytes, or if 0 what is free. */
void model_pool_init(struct model_pool *m, uint32_t count,
	const struct model_slot_options *options, int64_t idle_ns, uint64_t bytes);
void model_pool_release(struct model_pool *m); /* nobody may use a model any more */

/* Finds a model by its name or that of one of its adapters (NULL: the only model there is).
 * *adapter receives the number of the adapter, 0: none. Returns NULL with e. */
struct model_slot *model_pool_find(struct model_pool *m, const char *name,
	uint32_t *adapter, struct api_error *e);

/* Loads a model, at the start of the server. Returns 0, or -1 with err_set(). */
int model_pool_load(struct model_pool *m, struct model_slot *one);

/* Makes sure that a model is loaded, and keeps it so until model_pool_give. Waits while it is being
 * loaded. Returns 0, or -1 with e: it cannot be loaded, or there is no memory for it beside those
 * in use. Any thread may call both. */
int model_pool_take(struct model_pool *m, struct model_slot *one, struct api_error *e);
void model_pool_give(struct model_pool *m, struct model_slot *one);

/* Unloads models that nobody has used for idle_ns; call it from time to time. */
void model_pool_unload_idle(struct model_pool *m);

/* Counts of a model's engine since the start of the server. Returns whether it is loaded. */
bool model_pool_count(struct model_pool *m, struct model_slot *one,
	struct lm_service_counts *out);

/* Whether the device fails: in the last MODEL_POOL_FAILING steps of a loaded model, and within
 * MODEL_POOL_FAILING_NS before now_ns (monotonic). It is not said for longer: nobody would ask a
 * server that is left out because of it, and no step would show that it computes again. */
#define MODEL_POOL_FAILING    3
#define MODEL_POOL_FAILING_NS INT64_C(10000000000)
bool model_pool_failing(struct model_pool *m, int64_t now_ns);

/* The same, of one model's engine. */
static inline bool model_pool_fails(const struct lm_engine_counts *c, int64_t now_ns)
{
	return c->failing >= MODEL_POOL_FAILING &&
		now_ns - c->failed_ns < MODEL_POOL_FAILING_NS;
}

/* Whether the model's weights, or those of its draft, are being packed (lm_weights_pack). */
bool model_pool_packing(struct model_pool *m, const struct model_slot *one);

#endif
