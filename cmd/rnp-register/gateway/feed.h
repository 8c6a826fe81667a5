/* feed.h - keeps a gateway's table as its registry has it, or a file. Uses access, notes, http, io,
 * key, err. Prints nothing. */
#ifndef RNP_CMD_REGISTER_GATEWAY_FEED_H
#define RNP_CMD_REGISTER_GATEWAY_FEED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cmd/rnp-register/gateway/access.h"
#include "common/http/http.h"
#include "common/record/key.h"

struct gateway_feed {
	const char *directory; /* of the table, see notes.h */
	const char *file;      /* NULL: the registry's */
	const char *registry, *ca;
	const struct key *key;          /* that the registry knows the gateway by */
	const struct http_abort *abort; /* ends a request that waits */
	/* private */
	struct http http;
	struct stat last; /* of the file */
	int64_t seq;      /* of the registry's last answer; -1: none yet */
};

/* What came of a turn. */
enum gateway_turn {
	GATEWAY_SAME,
	GATEWAY_CHANGED, /* the table is another one now */
};

/* Takes the newest: of a file at once, of a registry once it changes, 25 s at most. Returns a
 * gateway_turn, or -1 with err_set and the table as it was. */
int gateway_feed_turn(struct gateway_feed *f, struct access_counts *counts);

void gateway_feed_release(struct gateway_feed *f);

#endif
