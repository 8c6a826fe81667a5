/* setup.h - the options of rnp-register setup, and its parts. */
#ifndef RNP_CMD_REGISTER_SETUP_H
#define RNP_CMD_REGISTER_SETUP_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/cli/opt.h"
#include "common/record/key.h"

#define SETUP_LABELS_MAX 16

/* Options and answers; borrowed. */
struct setup_given {
	const char *registry, *wallet, *name, *costs, *offers, *bench, *peer, *ca_file;
	const char *policy, *root;
	struct opt_list labels;
	bool no_start;
};

/* The setup: the paths to be written, and what was found on the way. */
struct setup {
	struct setup_given *given;
	struct buf dir, key_path, env_path, bench_path, node_path, costs_path, units_dir;
	struct key key;
	bool ask;
	bool measured, priced;
	char *kept[SETUP_LABELS_MAX + 8]; /* answers, freed at the end */
	int nkept;
	json_t *files, *next, *record; /* of the rnp.setup that is printed */
};

/* --- setup_ask.c -------------------------------------------------------------------------- */

/* Asks for missing options, if there is a person, and checks all of them; text becomes the file
 * of costs from the answers, if there were any. Returns 0, or -1 (64). */
int setup_collect(struct setup *s, struct buf *text);

/* --- setup_files.c ------------------------------------------------------------------------ */

/* Fills in the paths. Returns 0, or -1 (77) if this user may not write there. */
int setup_paths(struct setup *s);

/* Each writes its files. They return 0, or -1 with err_set. */
int setup_key(struct setup *s); /* keeps an existing one */
int setup_costs(struct setup *s, struct buf *text);
int setup_measure(struct setup *s);  /* memory, and the network if there is a peer */
int setup_settings(struct setup *s); /* after costs and measurements */
int setup_units(struct setup *s);    /* unless a package has installed them */

/* Records and reports a file that was written. */
void setup_say(struct setup *s, const char *path, const char *what);

#endif
