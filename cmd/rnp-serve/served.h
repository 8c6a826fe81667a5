/* served.h - the models of a server: each with its name, its tokenizer and an engine of its own.
 * Uses loaded.h, service.h. */
#ifndef RNP_SERVE_SERVED_H
#define RNP_SERVE_SERVED_H

#include <pthread.h>

#include "cmd/rnp-serve/loaded.h"
#include "common/lm/engine/service.h"
#include "common/lm/grammar/grammar.h"
#include "common/lm/infer/chat.h"

struct served_options {
	const char *tokenizer, *device; /* as loaded_open takes them */
	const char *template;           /* a file or a name; NULL: the model's own */
	uint32_t context;               /* 0: the model's */
	uint32_t streams, queue;
	int64_t cache_bytes; /* 0: what streams of whole contexts take, at most half of what is there */
	struct lm_outbox *outbox;
	bool pools_mean; /* embeddings are the mean of all rows, not the last */
};

/* One model. */
struct served {
	char *name, *path;
	struct loaded l;
	struct lm_service *service;
	uint32_t context; /* positions of a text */
	bool pools_mean;
	uint32_t *ends; /* ids that end a text */
	uint32_t ends_count;
	struct lm_chat *chat;             /* NULL: it only continues text */
	pthread_mutex_t lock;             /* of vocabulary */
	struct lm_vocabulary *vocabulary; /* for masks; NULL: nobody has asked yet */
	/* what it takes */
	uint64_t weights_bytes, cache_bytes, tables_bytes, work_bytes, available_bytes;
	struct lm_engine_limits limits;
};

/* "NAME=PATH" or "PATH", whose name is then the file's without ending. Returns 0, or -1 with
 * err_set(EX_USAGE): a name that is none. */
int served_name(struct served *m, const char *option);

/* Loads it and starts its engine. Returns 0, or -1 with err_set(); release either way. */
int served_open(struct served *m, const struct served_options *o);
void served_release(struct served *m);

/* The texts of the model's tokens, made when the first asks. Any thread. */
const struct lm_vocabulary *served_vocabulary(struct served *m);

/* The rnp.plan record of a model that is open; the caller owns it. */
json_t *served_plan(const struct served *m);

#endif
