/* main.c - predict: how long the kernels of a training step, of a token or of a prompt should take
 * on a GPU that need not be here, and what limits each. work.h says how that is computed.
 *
 * usage: build/benches/predict step [options] [FILE...]
 * FILE has the rnp.sass records that scripts/sass makes of the compiled kernels. Writes
 * rnp.prediction records: a kernel each, the slowest first, then their sum. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "tests/bench/predict/work.h"

static struct {
	const char *gpu, *work, *model, *type, *method;
	uint64_t tokens, length, context, values;
	bool without_library, skewed, feedback;
} options = { .gpu = "H100",
	.work = "train",
	.model = "small",
	.type = "bf16",
	.method = "q8:sigma",
	.tokens = 65536,
	.length = 1024,
	.context = 1024,
	.values = 1 << 27 };

static const char *const limits[PREDICT_LIMITS] = { "hbm", "tensor", "issue", "launch",
	"shared", "latency" };

static const struct {
	const char *name;
	double bytes_32;
	const char *rows, *tensor;
} types[] = {
	{ "f32", 128, NULL, NULL },
	{ "bf16", 64, NULL, NULL },
	{ "q8_0", 34, "project_few_kernel<3>", "project_tensor_kernel<3, 4, 2, 2, 2>" },
	{ "q4_0", 18, "project_few_kernel<4>", "project_tensor_kernel<4, 4, 2, 2, 3>" },
	{ "q4_k", 18, "project_few_kernel<8>", "project_tensor_kernel<8, 4, 2, 2, 2>" },
	{ "q6_k", 26.25, "project_few_kernel<10>",
		"project_tensor_kernel<10, 4, 2, 2, 2>" },
};

static const char *const methods[] = { [PREDICT_SIGMA] = "q8:sigma",
	[PREDICT_Q8] = "q8",
	[PREDICT_Q4] = "q4",
	[PREDICT_ECQ] = "ecq" };

/* What --work compresses, or the reverse; each: of how many values. */
static const struct {
	const char *name;
	int (*set)(struct predict_kernel *out, const struct predict_step *s);
} codings[] = { { "encode", predict_encode }, { "decode", predict_decode },
	{ "compress", predict_compress }, { "expand", predict_expand } };

/* The compiled code of the kernels, for one architecture. */
struct codes {
	struct predict_code *at;
	size_t n, cap;
};

static void set_functions(struct predict_code *code, const json_t *functions)
{
	const json_t *function, *loop;
	size_t i, j;

	json_array_foreach(functions, i, function) {
		const char *name = json_string_value(json_object_get(function, "name"));
		struct predict_function *f = &code->function[code->functions];

		if (!name || code->functions == PREDICT_FUNCTIONS_MAX ||
			strlen(name) >= sizeof f->name)
			continue;
		code->functions++;
		memcpy(f->name, name, strlen(name) + 1);
		f->all = (uint32_t)json_integer_value(
			json_object_get(function, "instructions"));
		json_array_foreach(json_object_get(function, "loops"), j, loop) {
			if (f->loops == PREDICT_LOOPS_MAX)
				break;
			f->instructions[f->loops] = (uint32_t)json_integer_value(
				json_object_get(loop, "instructions"));
			f->bytes[f->loops] = (uint32_t)json_integer_value(
				json_object_get(loop, "bytes"));
			f->shared_cycles[f->loops++] = (uint32_t)json_integer_value(
				json_object_get(loop, "shared_cycles"));
		}
	}
}

static int add_code(struct codes *c, const char *arch, char *line, size_t len,
	const char *where)
{
	json_t *r = json_parse_object(line, len, where);
	const json_t *mma;
	struct predict_code code = { 0 };
	const char *kernel, *made;

	if (!r || json_check_kind(r, where, "rnp.sass") < 0 ||
		json_get_text(r, where, "kernel", &kernel) < 0 ||
		json_get_text(r, where, "arch", &made) < 0) {
		json_decref(r);
		return -1;
	}
	if (strncmp(made, arch, strlen(arch)) == 0 &&
		(!made[strlen(arch)] || strcmp(made + strlen(arch), "a") == 0) &&
		strlen(kernel) < sizeof code.kernel) {
		mma = json_object_get(json_object_get(r, "hot"), "mma");
		memcpy(code.kernel, kernel, strlen(kernel) + 1);
		code.hot_instructions = (uint64_t)json_integer_value(
			json_object_get(r, "hot_instructions"));
		code.hot_bytes = (uint64_t)json_integer_value(
			json_object_get(r, "hot_bytes"));
		code.mmas = (uint64_t)json_integer_value(mma);
		code.fmas = (uint64_t)json_integer_value(
			json_object_get(json_object_get(r, "hot"), "fma"));
		code.hot_shared_cycles = (uint64_t)json_integer_value(
			json_object_get(r, "hot_shared_cycles"));
		set_functions(&code, json_object_get(r, "functions"));
		c->at = xgrow(c->at, &c->cap, c->n + 1, sizeof *c->at);
		c->at[c->n++] = code;
	}
	json_decref(r);
	return 0;
}

static int load_codes(struct codes *c, const char *arch, char **files, int n)
{
	struct lines lines;
	char *line;
	size_t len;
	int more;

	lines_open(&lines, files, n, JSON_RECORD_BYTES_MAX);
	while ((more = lines_next(&lines, &line, &len)) > 0)
		if (add_code(c, arch, line, len, lines_where(&lines)) < 0) {
			more = -1;
			break;
		}
	lines_close(&lines);
	if (more == 0 && !c->n)
		return err_set(EX_DATAERR, "there is no rnp.sass record for %s", arch);
	return more;
}

static const struct predict_code *code_of(const struct codes *c, const char *kernel)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->at[i].kernel, kernel) == 0)
			return &c->at[i];
	return NULL;
}

static json_t *record_of(const struct predict_gpu *gpu, const char *kernel,
	uint64_t launches, const struct predict_time *t, double bytes, double operations,
	double all_ns)
{
	json_t *r = json_record("rnp.prediction");

	json_set_text(r, "gpu", gpu->name);
	json_set_text(r, "work", options.work);
	json_set_text(r, "model", options.model);
	json_set_text(r, "kernel", kernel);
	json_set_i64(r, "launches", (int64_t)launches);
	json_set_i64(r, "ns", llround(t->ns));
	json_set_text(r, "limit", limits[t->limit]);
	json_set_i64(r, "share_ppm", llround(t->ns / all_ns * 1e6));
	json_set_i64(r, "bytes", llround(bytes));
	json_set_i64(r, "operations_millions", llround(operations / 1e6));
	json_set_i64(r, "hbm_ns", llround(t->hbm_ns));
	json_set_i64(r, "tensor_ns", llround(t->tensor_ns));
	if (t->issue_known)
		json_set_i64(r, "issue_ns", llround(t->issue_ns));
	if (t->shared_ns > 0)
		json_set_i64(r, "shared_ns", llround(t->shared_ns));
	if (t->latency_ns > 0)
		json_set_i64(r, "latency_ns", llround(t->latency_ns));
	json_set_i64(r, "launch_ns", llround(t->launch_ns));
	return r;
}

static int print(json_t *record)
{
	int rc = out_record(record);

	json_decref(record);
	return rc;
}

/* The slowest kernel first, then their sum. */
static int report(const struct predict_gpu *gpu, const struct predict_kernel *k, int n,
	const struct codes *codes, const char *each, double count)
{
	struct predict_time t[PREDICT_KERNELS_MAX], all = { .issue_known = true };
	bool done[PREDICT_KERNELS_MAX] = { false };
	double bytes = 0, operations = 0, by_limit[PREDICT_LIMITS] = { 0 };
	uint64_t launches = 0;
	json_t *r;

	for (int i = 0; i < n; i++) {
		t[i] = predict_time_of(gpu, &k[i], code_of(codes, k[i].kernel));
		all.ns += t[i].ns;
		all.hbm_ns += t[i].hbm_ns;
		all.tensor_ns += t[i].tensor_ns;
		all.issue_ns += t[i].issue_ns;
		all.shared_ns += t[i].shared_ns;
		all.latency_ns += t[i].latency_ns;
		all.launch_ns += t[i].launch_ns;
		all.issue_known = all.issue_known && t[i].issue_known;
		bytes += k[i].bytes;
		operations += k[i].operations;
		launches += k[i].launches;
		by_limit[t[i].limit] += t[i].ns;
	}
	for (int i = 1; i < PREDICT_LIMITS; i++)
		if (by_limit[i] > by_limit[all.limit])
			all.limit = (enum predict_limit)i;
	for (int i = 0; i < n; i++) {
		int slowest = 0;

		while (done[slowest])
			slowest++;
		for (int j = slowest + 1; j < n; j++)
			if (!done[j] && t[j].ns > t[slowest].ns)
				slowest = j;
		done[slowest] = true;
		r = record_of(gpu, k[slowest].kernel, k[slowest].launches, &t[slowest],
			k[slowest].bytes, k[slowest].operations, all.ns);
		json_set_text(r, "part", k[slowest].part);
		if (!t[slowest].issue_known) {
			json_t *unknown = json_object();

			json_set_text(unknown, "issue_ns",
				codes->n ? "no rnp.sass record that shows it" :
					   "no rnp.sass records were given");
			json_set(r, "unknown", unknown);
		}
		if (print(r) < 0)
			return -1;
	}
	r = record_of(gpu, "all", launches, &all, bytes, operations, all.ns);
	json_set_i64(r, each, llround(count / all.ns * 1e9));
	json_set_i64(r, "utilisation_ppm",
		llround(operations / (gpu->bf16_flops * all.ns) * 1e15));
	return print(r);
}

/* Fills in what is asked for. Returns 0 or -1. */
static int read_options(struct predict_step *s)
{
	size_t i = 0;

	while (strcmp(types[i].name, options.type) != 0)
		i++;
	if (!options.tokens || options.tokens > 1u << 30 || !options.length ||
		options.length > options.tokens || !options.context ||
		options.context > 1u << 24 || !options.values ||
		options.values > UINT64_C(1) << 40)
		return err_set(EX_USAGE,
			"--tokens, --length, --context and --values: from 1 to 2^30, to --tokens, to 2^24 and to 2^40");
	s->tokens = options.tokens;
	s->length = options.length;
	s->context = options.context;
	s->weight_bytes_32 = types[i].bytes_32;
	s->rows_kernel = types[i].rows;
	s->tensor_kernel = types[i].tensor;
	s->library = !options.without_library;
	s->values = options.values;
	s->skewed = options.skewed;
	s->feedback = options.feedback;
	for (i = 0; strcmp(methods[i], options.method) != 0;)
		i++;
	s->method = (enum predict_method)i;
	return lm_config_preset(&s->model, options.model, 0);
}

static int run(int n, char **args)
{
	const struct predict_gpu *gpu = predict_gpu_find(options.gpu);
	struct predict_kernel kernels[PREDICT_KERNELS_MAX];
	struct predict_step s = { 0 };
	struct codes codes = { 0 };
	const char *each = "tokens_per_s";
	int rc, count;
	double all = 1;

	/* names of kernels are long */
	if (out_width() && out_width() < 140)
		out_columns(
			"part,launches,ns=time,limit,share_ppm,tokens_per_s,utilisation_ppm=use");
	rc = read_options(&s);
	s.wgmma = strcmp(gpu->arch, "sm_90") == 0;
	if (rc == 0 && n > 0)
		rc = load_codes(&codes, gpu->arch, args, n);
	if (rc == 0) {
		if (strcmp(options.work, "train") == 0) {
			count = predict_train(kernels, &s);
			all = (double)s.tokens;
		} else if (strcmp(options.work, "prompt") == 0) {
			count = predict_prompt(kernels, &s);
			all = (double)s.context;
		} else if (strcmp(options.work, "token") == 0) {
			count = predict_token(kernels, &s);
		} else {
			size_t i = 0;

			while (strcmp(codings[i].name, options.work) != 0)
				i++;
			count = codings[i].set(kernels, &s);
			each = "values_per_s";
			all = (double)s.values;
		}
		rc = report(gpu, kernels, count, &codes, each, all);
	}
	free(codes.at);
	return rc < 0 ? err_report() : EX_OK;
}

static const struct opt opts[] = {
	OPT(CHOICE, "gpu", &options.gpu, "NAME",
		"the GPU, by its datasheet (default H100)",
		.choices = "A100|H100|H200|RTX4090|RTX5090"),
	OPT(CHOICE, "work", &options.work, "W", "what the step is (default train)",
		.choices = "train|token|prompt|encode|decode|compress|expand"),
	OPT(TEXT, "model", &options.model, "PRESET", "nano ... 7b (default small)"),
	OPT(U64, "tokens", &options.tokens, "N",
		"train: tokens of a step (default 65536)"),
	OPT(U64, "length", &options.length, "N",
		"train: tokens of a sequence (default 1024)"),
	OPT(U64, "context", &options.context, "N",
		"token: tokens before it; prompt: its length (default 1024)"),
	OPT(CHOICE, "type", &options.type, "T",
		"token, prompt: type of the weights (default bf16)",
		.choices = "f32|bf16|q8_0|q4_0|q4_k|q6_k"),
	OPT(U64, "values", &options.values, "N",
		"encode to expand: values (default 2^27)"),
	OPT(CHOICE, "method", &options.method, "M",
		"encode to expand: as rnp-train compress (default q8:sigma)",
		.choices = "q8:sigma|q8|q4|ecq"),
	OPT_SWITCH("feedback", &options.feedback, "compress: with error feedback"),
	OPT_SWITCH("skewed", &options.skewed,
		"of these nine of ten are zero; else they are Gaussian"),
	OPT_SWITCH("without-library", &options.without_library,
		"train: cuBLASLt is not there"),
	{ 0 },
};

static const struct command command_step = {
	.name = "step",
	.arguments = "[FILE...]",
	.args_max = -1,
	.summary = "How long a step should take on a GPU, and what limits it.",
	.details =
		"Reads rnp.sass records (scripts/sass), writes one rnp.prediction record a kernel, the\n"
		"slowest first, and one of all. Without FILE the issue of instructions and shared memory\n"
		"are not looked at.\n"
		"A model: a measurement confirms or corrects it.",
	.columns =
		"part,kernel,launches,ns=time,limit,share_ppm,tokens_per_s,utilisation_ppm=use",
	.opts = opts,
	.run = run,
};

static const struct command *const commands[] = { &command_step, NULL };
static const char *const kinds[] = { NULL };

static const struct program program = {
	.name = "predict",
	.summary = "How long kernels should take on a GPU that need not be here.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
