/* pooling.h - of which rows an embedding model makes its vector, as its files say. Uses model_file,
 * json, io. */
#ifndef RNP_COMMON_LM_MODEL_POOLING_H
#define RNP_COMMON_LM_MODEL_POOLING_H

#include "common/lm/model/model_file.h"

enum lm_pooling {
	LM_POOLING_UNSAID, /* the files say nothing */
	LM_POOLING_LAST,   /* the last token's row */
	LM_POOLING_MEAN    /* the mean of all rows */
};

/* Reads "1_Pooling/config.json" of a directory at path (sentence-transformers), or the key
 * "ARCHITECTURE.pooling_type" of a GGUF file. Returns 0 and *out, or -1 with err_set(EX_DATAERR):
 * the model pools in another way, or the file is malformed. */
int lm_pooling_read(enum lm_pooling *out, const struct model_file *m, const char *path);

#endif
