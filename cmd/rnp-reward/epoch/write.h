/* write.h - the records of a computed epoch: rnp.reward and rnp.epoch. Pure: text and values
 * only, the same bytes on every machine. */
#ifndef RNP_CMD_REWARD_EPOCH_WRITE_H
#define RNP_CMD_REWARD_EPOCH_WRITE_H

#include <jansson.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "common/base/buf.h"

/* Appends the rnp.reward of usage i and a newline. */
void reward_write(struct buf *out, const struct epoch *e, size_t i);

/* Appends text (",\"key\":") and an integer, as a decimal string beyond 2^53. */
void reward_number(struct buf *out, const char *text, int64_t v);

/* Returns the rnp.epoch; the caller owns it. */
json_t *epoch_record(const struct epoch *e);

/* Formats the result of requirement i for a usage: "download: 50 bit/s is not more than 100
 * bit/s". */
void need_reason(struct buf *out, const struct rules *r, int i, const struct usage *u);

#endif
