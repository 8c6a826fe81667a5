#include "common/lm/init.h"

#include "cmd/rnp-train/commands.h"
#include "common/err.h"
#include "common/lm/export.h"
#include "common/prog.h"

static const char *preset, *out, *type_name = "f32";
static int64_t vocab;
static uint64_t seed;

static const struct opt opts[] = {
	{ .name = "preset",
		.kind = OPT_CHOICE,
		.required = true,
		.to = &preset,
		.metavar = "P",
		.choices = "nano|mini|small|medium|1b|7b",
		.help = "shape: 1M, 11M, 124M, 360M, 1.1G, 6.7G parameters" },
	{ .name = "vocab",
		.kind = OPT_I64,
		.to = &vocab,
		.metavar = "N",
		.min = 1,
		.max = LM_VOCAB_MAX,
		.help = "tokens (default: the preset's)" },
	{ .name = "seed",
		.kind = OPT_U64,
		.to = &seed,
		.metavar = "S",
		.help = "of the random parameters (default 0)" },
	{ .name = "type",
		.kind = OPT_CHOICE,
		.to = &type_name,
		.metavar = "T",
		.choices = "f32|bf16|f16",
		.help = "of the matrices (default f32)" },
	{ .name = "out",
		.kind = OPT_TEXT,
		.required = true,
		.to = &out,
		.metavar = "DIR",
		.help = "directory to make" },
	{ 0 },
};

static int read_random(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	lm_init_read(to, ctx, seed, i, from, count);
	return 0;
}

static enum lm_type chosen_type(void)
{
	return type_name[0] == 'b' ? LM_BF16 : type_name[1] == '1' ? LM_F16 : LM_F32;
}

static int run(int nargs, char **args)
{
	struct lm_export e = { .read = read_random };

	(void)nargs, (void)args;
	if (lm_config_preset(&e.config, preset, (uint32_t)vocab) < 0)
		return err_report();
	e.ctx = &e.config;
	if (lm_export_directory(out, &e, chosen_type()) < 0)
		return err_report();
	return EX_OK;
}

const struct command command_init = {
	.name = "init",
	.args_max = 0,
	.summary = "Make a model directory with random parameters.",
	.details =
		"config.json and model.safetensors of a Llama. The same preset, vocabulary and seed\n"
		"give the same bytes on every machine. Writes nothing on standard output.",
	.opts = opts,
	.run = run,
};
