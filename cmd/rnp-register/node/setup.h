/* setup.h - the options of rnp-register setup, and its parts. */
#ifndef RNP_CMD_REGISTER_NODE_SETUP_H
#define RNP_CMD_REGISTER_NODE_SETUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/cli/opt.h"
#include "common/record/key.h"

#define SETUP_LABELS_MAX     16
#define SETUP_FILE_BYTES_MAX (1 << 20)

/* Options and answers; borrowed. */
struct setup_given {
	const char *registry, *wallet, *name, *costs, *offers, *bench, *peer, *ca_file,
		*rpc, *gpus;
	const char *policy, *root;
	struct opt_list labels;
	bool no_start, sell, no_sell;
	int64_t price_uusd; /* 0: none given */
};

/* The setup: the paths to be written, and what was found on the way. */
struct setup {
	const struct command *command; /* of which the person has given options */
	struct setup_given *given;
	struct buf again; /* options of this setup for the next one: " --root DIR" */
	struct buf dir, key_path, env_path, bench_path, node_path, costs_path, units_dir;
	/* the file of costs that is to be written, given or from answers; what --bench holds */
	struct buf costs_text, bench_text;
	struct key key;
	bool ask;
	bool measured, priced;
	bool quoted;    /* the registry has a price of it */
	bool installed; /* the programs stand where services see them, set by setup_units */
	const char *watts, *kwh, *hardware; /* answers about costs, or NULL */
	char **kept;                        /* answers, freed at the end */
	size_t nkept, kept_cap;
	json_t *files, *next, *record; /* of the rnp.setup that is printed */
};

/* --- setup_ask.c -------------------------------------------------------------------------- */

/* Asks for missing options, if there is a person, who then sees them together and may be asked
 * again; checks all of them. Sets ask, and costs_text from the answers, if there were any. Returns
 * 0, or -1 (64). */
int setup_collect(struct setup *s);

/* Checks the texts of all options that are there. Returns 0, or -1 (64). */
int setup_check_texts(const struct setup_given *g);

/* --- setup_check.c ------------------------------------------------------------------------ */

/* Judges each option that is given, with the files that it names, so that nothing is asked, made
 * or measured before a wrong one is found. Fills costs_text and bench_text. Returns 0, or -1. */
int setup_check_given(struct setup *s);

/* Judges what was asked for: a record and a file of costs can be made of it. Returns 0, or -1. */
int setup_check_answers(struct setup *s);

/* --- setup_files.c ------------------------------------------------------------------------ */

/* Fills in the paths. Returns 0, or -1 (77) if this user may not write there. */
int setup_paths(struct setup *s);

/* Each writes its files. They return 0, or -1 with err_set. */
int setup_key(struct setup *s); /* keeps an existing one */
int setup_costs(struct setup *s);
int setup_measure(struct setup *s);  /* memory, and the network if there is a peer */
int setup_settings(struct setup *s); /* after costs and measurements */
int setup_units(struct setup *s);    /* unless a package has installed them */
int setup_markets(struct setup *s);  /* public ones; keeps an existing list */

/* Returns a word as a shell takes it, for advice; it lives as long as the setup. */
const char *setup_shell(struct setup *s, const char *word);

/* Appends what its operator should do, "why: command", unless that is there already. */
void setup_advise(struct setup *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Records and reports a file that was written. */
void setup_say(struct setup *s, const char *path, const char *what);

#endif
