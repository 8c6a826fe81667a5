/* sell.h - what rnp-register setup --sell makes of a node: one that sells; and --no-sell of that
 * again. Uses node/setup, ready. */
#ifndef RNP_CMD_REGISTER_AGENT_SELL_H
#define RNP_CMD_REGISTER_AGENT_SELL_H

#include "cmd/rnp-register/node/setup.h"

/* Where the agent keeps images, disks and its journal, and where its sockets are. */
#define SELL_DIR "/var/lib/rnp-work"
#define SELL_RUN "/run/rnp"
/* While this file is in the folder the agent takes on nothing new, and ends with its last lease. */
#define SELL_CLOSED "closed"

/* Writes the files of selling: work.env, and where the price follows the markets price.env, both
 * kept where they are there. Returns 0, or -1. */
int sell_files(struct setup *s);

/* Tells the registry the price of --price. Returns 0, or -1: it is away, or refuses. */
int sell_price(struct setup *s);

/* What lacks for selling goes to the record. started: setup starts units here; then those of
 * selling begin, unless something lacks. Returns EX_OK, or EXIT_NO where it does, or -1. */
int sell_begin(struct setup *s, bool started);

/* Ends selling: nothing new is taken on, and what runs ends as it was booked. Done before all else,
 * for it needs no registry. Returns 0, or -1. */
int sell_end(struct setup *s);

#endif
