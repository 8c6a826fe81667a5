/* bring.h - brings the artifacts of a job home. Uses customer, pack, json, err. */
#ifndef RNP_REGISTER_CUSTOMER_BRING_H
#define RNP_REGISTER_CUSTOMER_BRING_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-register/customer/customer.h"

/* Fetches what an rnp.launch record names in `artifacts` to DIR/RANK, and adds the paths. Below
 * that stand `work`, from ~/sky_workdir, and `root`, from /. dir NULL: artifacts/CLUSTER, in which
 * cluster is the name that was asked for. bytes_max: of one rank. All of the record is the word of
 * registry and nodes: nothing that is there is replaced, and a rank comes whole or not at all. What
 * cannot be fetched is left out of the record. Returns 0, or -1 with err_set of the first that
 * cannot. */
int bring_artifacts(struct customer *c, json_t *record, const char *cluster,
	const char *dir, int64_t bytes_max);

#endif
