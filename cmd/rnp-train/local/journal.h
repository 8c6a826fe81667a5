/* journal.h - what a training run has to say about itself: records on standard output, and a
 * picture of its losses. */
#ifndef RNP_TRAIN_LOCAL_JOURNAL_H
#define RNP_TRAIN_LOCAL_JOURNAL_H

#include "cmd/rnp-train/local/launch.h"
#include "cmd/rnp-train/local/session.h"

/* Initialised with s and launch, both borrowed, and zeros. */
struct journal {
	struct session *s;
	const struct launch *launch;
	int64_t began_ns; /* of the monotonic clock: when this process did */
	int64_t step_ns;  /* that the last step took */
	int64_t train_ns; /* that all steps took, without evaluations and checkpoints */
	int64_t shown_ns; /* of the monotonic clock: when the last step got its row; 0: none */
	uint64_t began_tokens;
	double *steps, *losses, *valid_steps, *valid_losses;
	size_t n, valids, cap;
};

void journal_release(struct journal *j);

/* Keeps the losses of the step that was just made, for the picture. valid_loss: NaN where it
 * was not measured. */
void journal_note(struct journal *j, double loss, double valid_loss);

/* Writes the step's rnp.step; at the end the rnp.run, with why it ended. Return 0, or -1 with
 * err_set(): 74. */
int journal_step(const struct journal *j, const struct lm_step *step, double valid_loss);
int journal_end(const struct journal *j, const char *why);

/* Takes the losses of the run that is resumed, up to its checkpoint, where an earlier journal_draw
 * has kept them. */
void journal_load(struct journal *j);

/* Draws the recorded steps as SVG at path, and keeps them beside the checkpoint. Returns 0, or
 * -1 with err_set(): 73, 74, 77. */
int journal_draw(const struct journal *j, const char *path);

/* Writes the rnp.plan of a session that was opened and not begun. Returns 0, or -1 with
 * err_set(). */
int journal_plan(struct session *s);

#endif
