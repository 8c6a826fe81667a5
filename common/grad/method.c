/* method.c - the names of the methods, and their default parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/grad/grad.h"
#include "common/base/mem.h"
#include "common/base/num.h"

static const struct {
	const char *name;
	uint32_t block; /* default; 0: the method has none */
	float carry;    /* for error feedback */
} methods[QUANT_METHODS] = {
	[QUANT_NONE] = { "none", 0, 1 },
	[QUANT_LOSSLESS] = { "lossless", 0, 1 },
	[QUANT_F16] = { "f16", 0, 1 },
	[QUANT_BF16] = { "bf16", 0, 1 },
	[QUANT_FP8E4] = { "fp8e4", 0, 1 },
	[QUANT_FP8E5] = { "fp8e5", 0, 1 },
	[QUANT_Q8] = { "q8", 256, 1 },
	[QUANT_Q4] = { "q4", 64, 1 },
	[QUANT_ECQ] = { "ecq", 0, 1 },
	[QUANT_E3M0] = { "e3m0", 256, 1 },
	[QUANT_QSGD] = { "qsgd", 256, 1 },
	[QUANT_TOPK] = { "topk", 4096, 0.95f },
};

const char grad_methods[] =
	"none, lossless, f16, bf16, fp8e4, fp8e5, q8[:sigma][:stochastic], q4[:sigma][:stochastic], ecq:E[:chunk], e3m0, qsgd:S, topk";

/* Parses one word after the name. */
static int parse_word(struct grad *g, const char *word, bool first)
{
	enum quant_method m = g->q.method;
	int64_t levels;

	if ((m == QUANT_Q8 || m == QUANT_Q4) && !g->q.sigma &&
		strcmp(word, "sigma") == 0) {
		g->q.sigma = true;
		g->q.block = 0;
		return 0;
	}
	if ((m == QUANT_Q8 || m == QUANT_Q4) && !g->q.stochastic &&
		strcmp(word, "stochastic") == 0) {
		g->q.stochastic = true;
		return 0;
	}
	if (m == QUANT_ECQ && first) {
		if (num_f64(word, "the error of ecq", &g->error) < 0)
			return -1;
		if (g->error >= 1e-6 && g->error <= 0.99)
			return 0;
		return err_set(EX_USAGE, "the error of ecq is %s, not 0.000001 .. 0.99",
			word);
	}
	if (m == QUANT_ECQ && !g->each && strcmp(word, "chunk") == 0) {
		g->each = true;
		return 0;
	}
	if (m == QUANT_QSGD && first) {
		if (num_i64(word, "the levels of qsgd", 1, QUANT_LEVELS_MAX, &levels) < 0)
			return -1;
		g->q.levels = (uint32_t)levels;
		return 0;
	}
	return err_set(EX_USAGE, "method '%s' has no '%.40s'", methods[m].name, word);
}

static int find_method(struct grad *g, const char *name)
{
	for (int i = 0; i < QUANT_METHODS; i++)
		if (strcmp(name, methods[i].name) == 0) {
			g->q.method = (enum quant_method)i;
			g->q.block = methods[i].block;
			g->carry = methods[i].carry;
			return 0;
		}
	return err_set(EX_USAGE, "method '%.40s' is none of %s", name, grad_methods);
}

static int parse(struct grad *g, char *text, uint32_t block)
{
	char *word = strchr(text, ':');
	bool first = true;

	if (word)
		*word++ = '\0';
	if (find_method(g, text) < 0)
		return -1;
	while (word) {
		char *next = strchr(word, ':');

		if (next)
			*next++ = '\0';
		if (parse_word(g, word, first) < 0)
			return -1;
		first = false;
		word = next;
	}
	if (g->q.method == QUANT_ECQ && !g->error)
		return err_set(EX_USAGE, "ecq needs an error, as in ecq:0.1");
	if (g->q.method == QUANT_QSGD && !g->q.levels)
		return err_set(EX_USAGE, "qsgd needs a number of levels, as in qsgd:4");
	if (block && !g->q.block)
		return err_set(EX_USAGE, "method '%s' has no blocks", text);
	if (block)
		g->q.block = block;
	if (!quant_valid(&g->q))
		return err_set(EX_USAGE,
			"method '%s' has blocks that are a power of two from %s, not of %u",
			text, g->q.method == QUANT_TOPK ? "256 to 4096" : "16 to 65536",
			block);
	return 0;
}

int grad_parse(struct grad *g, const char *method, uint32_t block)
{
	char *copy = xstrdup(method);
	int rc;

	*g = (struct grad){ .elements = GRAD_UNKNOWN };
	rc = parse(g, copy, block);
	if (rc < 0) { /* a malformed number is a usage error here */
		struct err e;

		err_save(&e);
		e.code = EX_USAGE;
		err_restore(&e);
	}
	free(copy);
	return rc;
}

void grad_name(char out[64], const struct grad *g)
{
	const char *name = methods[g->q.method].name;

	if (g->q.method == QUANT_ECQ)
		snprintf(out, 64, "%s:%.6g%s", name, g->error, g->each ? ":chunk" : "");
	else if (g->q.method == QUANT_QSGD)
		snprintf(out, 64, "%s:%u", name, g->q.levels);
	else
		snprintf(out, 64, "%s%s%s", name, g->q.sigma ? ":sigma" : "",
			g->q.stochastic ? ":stochastic" : "");
}
