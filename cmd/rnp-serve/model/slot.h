/* slot.h - the models of a server: each with its name, its tokenizer and an engine of its own.
 * Uses handles.h, service.h. */
#ifndef RNP_SERVE_MODEL_SLOT_H
#define RNP_SERVE_MODEL_SLOT_H

#include <pthread.h>

#include "cmd/rnp-serve/model/call_format.h"
#include "cmd/rnp-serve/model/handles.h"
#include "cmd/rnp-serve/request/times.h"
#include "common/lm/model/pooling.h"
#include "common/lm/engine/service.h"
#include "common/lm/grammar/grammar.h"
#include "common/lm/infer/chat.h"

struct model_slot_options {
	const char *tokenizer, *device, *type; /* as in model_handles_open */
	const char *template; /* a file or a name; NULL: the model's own */
	uint32_t context;     /* 0: the model's */
	uint32_t streams, queue;
	uint32_t speculate; /* tokens of an answer to propose in a step at most */
	bool packs;         /* as lm_weights_pack does */
	/* 0: whole contexts of all streams, but at most half of the free memory; of a GPU's, most
	 * of what is left if the model is alone there */
	int64_t cache_bytes;
	bool alone; /* there is no other model */
	enum lm_cache_type cache;
	struct lm_events *outbox;
	bool must_fit; /* a model is not loaded if it needs more than room_bytes, or than is free */
	uint64_t room_bytes;
	/* models that nobody uses could make room: the cache has a whole context, or it does not
	 * fit */
	bool others_idle;
	enum lm_pooling pooling; /* UNSAID: as the model says, else of the last row */
};

enum model_slot_state { MODEL_SLOT_UNLOADED, MODEL_SLOT_LOADING, MODEL_SLOT_LOADED };

/* Requests for a model since the start of the server; protected by the writer
 * (answer/completion.h). */
struct model_slot_requests {
	uint64_t taken, cancelled, failed;
	struct request_times times;
};

/* An adapter of a model; clients ask for it by its name, as for a model. */
struct model_slot_adapter {
	char *name, *dir;
};

/* One model. */
struct model_slot {
	char *name, *path;
	struct model_slot_adapter *adapters;
	uint32_t adapter_count;
	char *draft_path; /* of a small model that proposes tokens; NULL: none */
	/* pool.h */
	enum model_slot_state state;
	uint32_t users; /* requests that use it now */
	int64_t last_used_ns;

	/* what stays known when it is unloaded */
	struct lm_service_counts past; /* counted before it was unloaded */
	struct model_slot_requests requests;
	uint32_t queue; /* answers that may wait */
	/* the rest is valid while it is loaded */
	struct model_handles handles;
	struct model_file *draft_file;
	struct lm_weights *draft;
	struct lm_service *service;
	uint32_t context; /* positions of a text */
	bool pools_mean;
	uint32_t speculate; /* as in struct model_slot_options */
	uint32_t *ends;     /* ids that end an answer */
	uint32_t ends_count;
	struct lm_chat *chat;
	struct call_format calls;         /* how it calls tools */
	pthread_mutex_t lock;             /* protects vocabulary */
	struct lm_vocabulary *vocabulary; /* for masks; NULL until first used */
	/* memory that it uses */
	uint64_t weights_bytes, cache_bytes, tables_bytes, work_bytes, available_bytes;
	uint64_t adapters_bytes, draft_bytes;
	struct lm_engine_limits limits;
	/* where the cache is smaller than wanted: pages that were wanted, and that q8_0 would have;
	 * else 0 */
	uint32_t pages_cut;
	uint64_t pages_q8;
};

/* Parses "NAME=PATH" or "PATH", where the name is the file's without its extension. Returns 0,
 * or -1 with err_set(EX_USAGE) for an invalid name. */
int model_slot_name(struct model_slot *m, const char *option);

/* Adds an adapter before the model is loaded. Returns 0, or -1 with err_set(EX_USAGE): no name. */
int model_slot_adapt(struct model_slot *m, const char *name, size_t name_bytes,
	const char *dir);

/* Whether the model or one of its adapters has this name; *adapter: its number from 1 on, 0: the
 * model. */
bool model_slot_is(const struct model_slot *m, const char *name, uint32_t *adapter);

/* Returns 0, or -1 with err_set(EX_USAGE) if two of its names are the same. */
int model_slot_check_names(const struct model_slot *m);

/* Loads the model with its adapters and starts its engine. Returns 0, or -1 with err_set(), and
 * nothing is loaded: EX_TEMPFAIL with must_fit if it does not fit into memory now. */
int model_slot_load(struct model_slot *m, const struct model_slot_options *o);
void model_slot_unload(struct model_slot *m); /* nobody may use it */
void model_slot_release(struct model_slot *m);

/* Counts of its engine, including those before it was unloaded. */
void model_slot_count(struct model_slot *m, struct lm_service_counts *out);

/* Returns the texts of the model's tokens, built on first use. Any thread may call it. */
const struct lm_vocabulary *model_slot_vocabulary(struct model_slot *m);

/* Returns the limits of an engine whose cache holds whole contexts of all streams. */
struct lm_engine_limits model_slot_limits(const struct dev *d, uint32_t context,
	uint32_t streams, enum lm_cache_type cache);

/* Finds how much of a device's memory its kernels take for themselves. Returns 0, or -1 with
 * err_set(). */
int model_slot_work(struct dev *d, uint64_t *bytes);

/* Appends, for an open model whose cache is smaller than wanted, the option that would change that.
 * Returns whether there is one. */
bool model_slot_advice(const struct model_slot *m, struct buf *out);

/* Returns the bytes that an open model was planned to use; 0 if it is not loaded. */
uint64_t model_slot_bytes(const struct model_slot *m);

/* Returns the rnp.plan record of an open model; the caller owns it. */
json_t *model_slot_plan(const struct model_slot *m);

#endif
