/* registry_beats.h - heartbeats as their fields and signature, and back. */
#ifndef RNP_CMD_REGISTER_REGISTRY_BEATS_H
#define RNP_CMD_REGISTER_REGISTRY_BEATS_H

#include "cmd/rnp-register/registry_db.h"
#include "common/base/buf.h"

/* Appends the text of a heartbeat as rnp-register heartbeat writes it. node: an address. */
void registry_beat_write(struct buf *out, const char *node, int64_t at_ms,
	const struct registry_beat *b);

/* Sets compact, created_ms and signature of p->beat if registry_beat_write would reproduce the
 * record's text (len bytes) from them. */
void registry_beat_compact(struct registry_put *p, const json_t *record,
	const struct buf *text);

#endif
