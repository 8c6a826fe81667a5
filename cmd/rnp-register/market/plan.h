/* plan.h - proposals: what a registry offers for a job. */
#ifndef RNP_CMD_REGISTER_MARKET_PLAN_H
#define RNP_CMD_REGISTER_MARKET_PLAN_H

#include "cmd/rnp-register/market/parts.h"

#define PLAN_VALID_MS   INT64_C(600000)
#define PLAN_OFFERS_MAX 3
#define PLAN_SPARES_MAX 16

/* Appends a signed rnp.proposal for a job (rnp.job, without its proof; borrowed). Returns 0, or -1
 * with err_set(): 65 the job cannot be planned. */
int plan_write(struct registry *g, const json_t *job, struct buf *out);

/* Adds a new proposal for the job of an old one to an error. */
void plan_again(struct registry *g, struct httpd_reply *r, const json_t *proposal);

#endif
