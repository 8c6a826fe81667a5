/* inputs.c - the options that epoch and explain share: how much an epoch may pay. */
#include "cmd/rnp-reward/epoch/inputs.h"

#include "common/base/err.h"
#include "common/base/money.h"

static int set_pool(const struct epoch_inputs *g, struct epoch *e)
{
	e->scheduled_base_units = g->pool;
	e->price_uusd = g->price_uusd;
	if (g->left < 0 && !g->epochs)
		return 0;
	if (g->left < 0 || !g->epochs || g->pool >= 0)
		return err_set(EX_USAGE, "--left goes with --epochs, and without --pool");
	e->scheduled_base_units = g->left / g->epochs; /* rounded down */
	return 0;
}

static int set_scale(struct frac *scale, const char *text, const char *name)
{
	if (!text)
		return 0;
	if (frac_parse(text, name, scale) < 0)
		return err_set(EX_USAGE, "%s: '%.40s' is not a decimal number", name,
			text);
	/* the epoch's record holds it in ppm, and verifiers compute with that value */
	if (MONEY_PPM % scale->den != 0)
		return err_set(EX_USAGE, "%s: %.40s has more than 6 decimals", name,
			text);
	return 0;
}

int epoch_inputs_apply(const struct epoch_inputs *g, struct epoch *e)
{
	if (set_pool(g, e) < 0 ||
		set_scale(&e->scale[PAY_JOB], g->job_scale, "--job-scale") < 0)
		return -1;
	return set_scale(&e->scale[PAY_AVAILABILITY], g->availability_scale,
		"--availability-scale");
}
