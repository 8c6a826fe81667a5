/* names.h - the table of pre-tokenizers by name. For common/lm/token/pre.c. */
#ifndef RNP_COMMON_LM_TOKEN_NAMES_H
#define RNP_COMMON_LM_TOKEN_NAMES_H

#include "common/lm/token/pre.h"

struct pre_family {
	const char *names; /* "a|b": names that split alike; we write the first */
	struct pre_habits habits;
	const char *patterns[7];
	enum pre_how hand; /* how step hand_at works without a pattern */
	unsigned hand_at;
	enum pre_ascii ascii; /* scanner of the last step */
	unsigned digits;
	bool lines_together;
};

extern const struct pre_family pre_families[]; /* ends with names NULL */

struct pre_alias {
	const char *name, *pattern;
};
extern const struct pre_alias pre_aliases[];

extern const char pre_contraction[]; /* 's, 't ... in either case */

#endif
