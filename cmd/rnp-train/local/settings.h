/* settings.h - the options that decide the bits of a run: stored with its checkpoint, and used
 * again by a resumed run. Uses session.h, num, canon. */
#ifndef RNP_TRAIN_LOCAL_SETTINGS_H
#define RNP_TRAIN_LOCAL_SETTINGS_H

#include <jansson.h>

#include "cmd/rnp-train/local/session.h"

/* Returns "option.batch": "8" and so on, for a checkpoint's metadata; to be json_decref'ed. */
json_t *settings_of(const struct session_options *o, int ranks);

/* Sets the options that are not in o->given to their values in `kept`, the metadata of the
 * checkpoint at path. Options that it lacks are left alone. ranks: of this run; with another
 * number of ranks the size of one pass is not taken over. Texts are borrowed from `kept`. Returns
 * 0, or -1 with err_set(): 64 one was given with another value, 65 an invalid value. */
int settings_resume(struct session_options *o, int ranks, const json_t *kept,
	const char *path);

#endif
