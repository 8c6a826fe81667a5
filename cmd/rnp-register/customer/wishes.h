/* wishes.h - what a customer wants, from a file: a job file, an rnp.job, or a proposal that he was
 * given. Uses jobfile, customer, offer, io, json. */
#ifndef RNP_REGISTER_CUSTOMER_WISHES_H
#define RNP_REGISTER_CUSTOMER_WISHES_H

#include <jansson.h>

#include "cmd/rnp-register/customer/customer.h"
#include "common/cli/opt.h"

/* Options of whoever asks a market. Set by the rows of OPTS_CUSTOMER. */
struct customer_options {
	const char *registry, *ca, *key_path, *passphrase_file;
};

/* clang-format off */
#define OPTS_CUSTOMER(to)                  \
	OPT_REGISTRY(&(to)->registry),     \
	OPT_KEY(&(to)->key_path),          \
	OPT_PASSPHRASE(&(to)->passphrase_file), \
	OPT_CA(&(to)->ca)
/* clang-format on */

/* Makes a customer: loads the key, where there is one to load. Returns 0 or -1. */
int customer_open(struct customer *c, struct key *k, const struct customer_options *o);

/* Reads a file ("-": standard input) and asks for plans, unless it is a proposal. Returns the
 * proposal to book, which the caller owns: of several wishes the one to choose, of none that can be
 * met the first. NULL with err_set. */
json_t *customer_propose(struct customer *c, const char *path);

/* Sends a booking (takes it) of an offer of proposal, and once more where the registry answers with
 * another proposal that costs no more. Returns the rnp.cluster, or NULL with err_set: 77 the credit
 * is not enough, 75 it is taken or dearer. */
json_t *customer_book(struct customer *c, json_t *booking, const json_t *proposal);

/* Sets ssh_keys to the public keys of these files, of each its first line. Returns 0, or -1 with
 * err_set: 64 one is a secret key. */
int customer_add_keys(json_t *to, const struct opt_list *files);

/* Sends what a customer wants of a cluster of his, an rnp.action with its arguments (takes it).
 * Returns the rnp.cluster as it is then, or NULL with err_set. */
json_t *customer_act(struct customer *c, const char *cluster, const char *what,
	json_t *action);

/* All that a subcommand does which wants one thing of one cluster: fill sets the action's
 * arguments (0, or -1 with err_set), and the rnp.cluster is written as it is then. Returns the exit
 * code, what went wrong reported. */
int customer_change(const struct customer_options *o, const char *cluster,
	const char *what, int (*fill)(json_t *action));

#endif
