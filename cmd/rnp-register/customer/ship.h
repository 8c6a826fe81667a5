/* ship.h - sends what a job needs to the registry: its work directory and files, its
 * scripts. Uses customer,
 * pack, json, err. */
#ifndef RNP_REGISTER_CUSTOMER_SHIP_H
#define RNP_REGISTER_CUSTOMER_SHIP_H

#include <jansson.h>
#include <stddef.h>

#include "cmd/rnp-register/customer/customer.h"
#include "common/base/buf.h"

/* Appends a script as a node runs it: the variables of a task (rnp.task), and the script. Pure. */
void ship_script(struct buf *out, const json_t *task, const char *script);

/* Appends the line of a script that takes what was unpacked as .rnp/mounts/NUMBER to its place: a
 * folder, or that file of it. Pure. */
void ship_mount_words(struct buf *out, size_t number, const char *to, const char *file);

/* Packs and sends the work directory, file_mounts, setup and run of a task, and notes their names
 * in a booking: blobs, setup_sha256, run_sha256. Returns 0, or -1: as http_fetch and
 * pack_directory. */
int ship(struct customer *c, const json_t *task, json_t *booking);

/* A path of this machine as a job file writes it: "~/data" is below the home folder. */
void ship_local_path(struct buf *out, const char *path);

#endif
