/* complete.h - shell completion from the option tables. Uses opt, buf. Pure. */
#ifndef RNP_COMMON_CLI_COMPLETE_H
#define RNP_COMMON_CLI_COMPLETE_H

#include "common/base/buf.h"
#include "common/cli/prog.h"

/* Appends a completion script for p; common: the options that every subcommand has. */
void complete_bash(struct buf *out, const struct program *p, const struct opt *common);
void complete_zsh(struct buf *out, const struct program *p, const struct opt *common);
void complete_fish(struct buf *out, const struct program *p, const struct opt *common);

/* Appends the tables of options, for other shells and for tests: a line each with subcommand (its
 * arguments at most, -1: any number), option, kind as in enum opt_kind without its OPT_, least,
 * greatest (0 0: no bounds), words, "required" or "", "address" or "", separated by tabs. A line
 * with the subcommand alone comes before its options. */
void complete_table(struct buf *out, const struct program *p, const struct opt *common);

#endif
