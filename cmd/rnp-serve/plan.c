/* plan.c - rnp-serve plan: compares the memory that a model needs with what is available,
 * before loading it. */
#include <string.h>

#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/options.h"
#include "cmd/rnp-serve/model/slot.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/lm/infer/stream.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static const char *model, *device, *cache_type;
static enum lm_cache_type type;
static int64_t context, streams;

static const struct opt opts[] = {
	OPT_MODEL(&model),
	OPT_IN(I64, "context", &context, "N", 1, LM_CONTEXT_MAX,
		"tokens of one stream (default: all the model was made for)"),
	OPT_IN(I64, "streams", &streams, "N", 1, 1024,
		"of a server that computes this many answers at the same time"),
	OPT_CACHE_TYPE(&cache_type),
	OPT_DEVICE(&device),
	{ 0 },
};

/* Returns the available memory, or 0 if it is not known. */
static int available(const struct dev *d, uint64_t *bytes)
{
	struct dev *open = (struct dev *)d;

	if (d->is_host) {
		*bytes = (uint64_t)hw_available_read();
		return 0;
	}
	return d->ops->mem_free(open, bytes) < 0 ? device_failed(d) : 0;
}

/* Computes what a stream takes, or with --streams a server, which has other rows and a larger
 * cache. Returns 0, or -1 with err_set(). */
static int plan_of(struct lm_stream_plan *p, struct dev *d, const struct model_file *s,
	uint32_t tokens, enum lm_cache_type of)
{
	const struct lm_config *c = model_file_config(s);
	struct lm_engine_limits limits;
	uint64_t rope, kernels;

	if (lm_stream_plan(p, s, tokens, of) < 0 || model_slot_work(d, &kernels) < 0)
		return -1;
	if (streams) {
		limits = model_slot_limits(d, tokens ? tokens : c->context,
			(uint32_t)streams, of);
		lm_engine_bytes(c, &limits, &p->cache, &rope, &p->work);
	}
	p->work += kernels;
	p->total = p->weights + p->tables + p->cache + p->work;
	return 0;
}

/* Returns the longest context with which everything fits; 0: not even one token. */
static uint32_t longest(struct dev *d, const struct model_file *s, uint64_t bytes)
{
	uint32_t low = 0, high = LM_CONTEXT_MAX;
	struct lm_stream_plan p;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (plan_of(&p, d, s, middle, type) == 0 && p.total <= bytes)
			low = middle;
		else
			high = middle - 1;
	}
	err_clear();
	return low;
}

/* Estimates the total if the weights had this many bits each: matrices are nearly all of a
 * model. */
static uint64_t total_as(const struct lm_stream_plan *p, const struct lm_config *c,
	double bits)
{
	return p->total - p->weights + (uint64_t)((double)lm_config_params(c) * bits / 8);
}

static void add_bytes(struct buf *out, uint64_t bytes)
{
	human_bytes(out, (double)bytes);
}

/* Proposes a smaller cache, if that fits. */
static void propose_cache(json_t *list, struct dev *d, const struct model_file *s,
	uint64_t there)
{
	const struct lm_config *c = model_file_config(s);
	struct buf text = BUF_INIT;
	struct lm_stream_plan p;

	if (type == LM_CACHE_Q8_0 || c->head_dim % 32 ||
		plan_of(&p, d, s, (uint32_t)context, LM_CACHE_Q8_0) < 0 ||
		p.total > there)
		return;
	buf_adds(&text, "--cache-type q8_0 takes ");
	add_bytes(&text, p.total);
	buf_adds(&text, " in all");
	json_push_text(list, text.data);
	buf_release(&text);
}

/* Proposes alternatives for a model that does not fit: a smaller type at the same context, a
 * smaller cache, a shorter context, or more memory. */
static json_t *proposals(const struct model_file *s, struct dev *d,
	const struct lm_stream_plan *p, uint64_t there)
{
	/* blocks of 32 with a scale of 16 bits */
	static const struct {
		const char *name;
		double bits;
	} types[] = { { "q8_0", 8.5 }, { "q4_0", 4.5 } };
	const struct lm_config *c = model_file_config(s);
	uint32_t tokens = longest(d, s, there);
	json_t *list = json_array();
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		uint64_t total = total_as(p, c, types[i].bits);

		if (total >= p->total || total > there)
			continue;
		buf_reset(&text);
		buf_addf(&text, "--type %s takes about ", types[i].name);
		add_bytes(&text, total);
		buf_adds(&text, " in all (rnp-train export makes such a file)");
		json_push_text(list, text.data);
		break;
	}
	propose_cache(list, d, s, there);
	if (tokens) {
		buf_reset(&text);
		buf_addf(&text, "--context %u is the longest that fits as it is", tokens);
		json_push_text(list, text.data);
	}
	if (!json_array_size(list)) {
		buf_reset(&text);
		buf_adds(&text, "a machine with ");
		add_bytes(&text, total_as(p, c, types[1].bits));
		buf_adds(&text, " free, with --type q4_0, or a smaller model");
		json_push_text(list, text.data);
	}
	buf_release(&text);
	return list;
}

static int write_plan(const struct model_file *s, struct dev *d,
	const struct lm_stream_plan *p, uint64_t there, bool fits)
{
	const struct lm_config *c = model_file_config(s);
	json_t *r = json_record("rnp.plan"), *unknown;
	int rc;

	json_set_text(r, "model", model);
	json_set_text(r, "device", d->name);
	json_set_i64(r, "parameters", (int64_t)lm_config_params(c));
	json_set_i64(r, "context", context ? context : c->context);
	if (streams)
		json_set_i64(r, "streams", streams);
	json_set_i64(r, "weights_bytes", (int64_t)p->weights);
	json_set_i64(r, "tables_bytes", (int64_t)p->tables);
	json_set_i64(r, "cache_bytes", (int64_t)p->cache);
	json_set_i64(r, "work_bytes", (int64_t)p->work);
	json_set_i64(r, "total_bytes", (int64_t)p->total);
	if (there) {
		json_set_i64(r, "available_bytes", (int64_t)there);
		json_set_bool(r, "fits", fits);
		json_set_i64(r, "context_max", longest(d, s, there));
		if (!fits)
			json_set(r, "proposals", proposals(s, d, p, there));
	} else {
		unknown = json_object();
		json_set_text(unknown, "available_bytes", "the system does not say");
		json_set(r, "unknown", unknown);
	}
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int plan(struct dev *d, struct model_file **s, bool *fits)
{
	struct lm_stream_plan p;
	uint64_t there;

	if (cache_type && lm_cache_type_find(&type, cache_type) < 0)
		return -1;
	if (model_file_open(s, model) < 0)
		return -1;
	if (device_open(d, device) < 0)
		return -1;
	if (available(d, &there) < 0 || plan_of(&p, d, *s, (uint32_t)context, type) < 0)
		return -1;
	model_handles_check_context(*s, model, context);
	*fits = !there || p.total <= there;
	return write_plan(*s, d, &p, there, *fits);
}

static int run(int n, char **args)
{
	struct dev d = DEV_INIT;
	struct model_file *s = NULL;
	bool fits = false;
	int rc = plan(&d, &s, &fits);

	(void)n, (void)args;
	dev_close(&d);
	model_file_close(s);
	if (rc < 0)
		return err_report();
	return fits ? EX_OK : EXIT_NO;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "The memory that a model takes, against what is there.",
	.details =
		"Reads the model's header, not its weights, and writes one rnp.plan record. Exit status 1 when it\n"
		"does not fit. Weights that are mapped from a file are counted: they have to be in memory to be fast.",
	.columns =
		"model,device,parameters,weights_bytes,cache_bytes,total_bytes,available_bytes,fits",
	.card = true,
	.opts = opts,
	.run = run,
};
