/* settings.h - the options that decide the bits of a run: kept with its checkpoint, and what a
 * resumed run goes on with. Uses session.h, num, canon. */
#ifndef RNP_TRAIN_SETTINGS_H
#define RNP_TRAIN_SETTINGS_H

#include <jansson.h>

#include "cmd/rnp-train/session.h"

/* "option.batch": "8" and so on, for a checkpoint's metadata; to be json_decref'ed. */
json_t *settings_of(const struct session_options *o, int ranks);

/* Sets the options that o->given does not know to what `kept`, the metadata of the checkpoint at
 * path, has for them. One that it has not is left alone. ranks: of this run; of another number of
 * them the share of one pass is not taken over. Returns 0, or -1 with err_set(): 64 one was given
 * and is another, 65 no such value. */
int settings_resume(struct session_options *o, int ranks, const json_t *kept,
	const char *path);

#endif
