/* beats.h - heartbeats as their fields and signature, and back. */
#ifndef RNP_CMD_REGISTER_STORAGE_BEATS_H
#define RNP_CMD_REGISTER_STORAGE_BEATS_H

#include "cmd/rnp-register/storage/db.h"
#include "common/base/buf.h"

/* Appends the text of a heartbeat as rnp-register heartbeat writes it. node: an address. */
void registry_beat_write(struct buf *out, const char *node, int64_t at_ms,
	const struct registry_beat *b);

/* A signature, and the instance of a heartbeat that has one, as a column of the database. The
 * first returns how many bytes it wrote; the second whether the n bytes are such, and sets both
 * fields. */
#define BEAT_INSTANCE_BYTES 8
#define BEAT_PACKED_MAX     (KEY_SIGNATURE_BYTES + BEAT_INSTANCE_BYTES)
size_t registry_beat_pack(unsigned char out[BEAT_PACKED_MAX],
	const struct registry_beat *b);
bool registry_beat_unpack(struct registry_beat *b, const void *packed, int n);

/* Sets compact, created_ms and signature of p->beat if registry_beat_write would reproduce the
 * record's text (len bytes) from them. */
void registry_beat_compact(struct registry_put *p, const json_t *record,
	const struct buf *text);

#endif
