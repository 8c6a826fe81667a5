/* token_names.h - the table of pre-tokenizers by name. For common/lm/token/token_pre.c. */
#ifndef RNP_COMMON_LM_TOKEN_TOKEN_NAMES_H
#define RNP_COMMON_LM_TOKEN_TOKEN_NAMES_H

#include "common/lm/token/token_pre.h"

struct pre_family {
	const char *names; /* "a|b": those that cut alike; the first is what we write */
	struct pre_habits habits;
	const char *patterns[7];
	enum pre_how hand; /* step hand_at is done by hand */
	unsigned hand_at;
	enum pre_ascii ascii; /* of the last step */
	unsigned digits;
	bool lines_together;
};

extern const struct pre_family pre_families[]; /* names NULL at the end */

struct pre_alias {
	const char *name, *pattern;
};
extern const struct pre_alias pre_aliases[];

extern const char pre_contraction[]; /* 's, 't ... in either case */

#endif
