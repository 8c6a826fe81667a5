/* work.c - the kernels of a training step, of a token and of a prompt, with their bytes and
 * operations, and the time that a GPU's limits give them; long because each kernel that is added
 * stands here once, with what it moves and computes. */
#include "tests/bench/predict/work.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define MEMORY_SHARE  0.9
#define LIBRARY_SHARE 0.75
#define MMA_SHARE     0.85
#define ISSUE_SHARE   0.75
/* Of a tile of 128 x 256 a step of 64 brings 48 KiB from the level-2 cache for 4.2 million
 * operations. A public kernel of this design without clusters (pranjalssh/fast.cu, kernel 6, 192 x
 * 192) measured 777 TFLOP/s on an H100, for which that cache gave 8.1 TB/s: 690 TFLOP/s here, 0.7
 * of 989. */
#define WGMMA_SHARE 0.70
/* after a tile: two warps a scheduler, while tensor cores wait. The sums become bf16 and the next
 * tile is found: so many instructions of a warp, read off the compiled code */
#define WGMMA_ISSUE_SHARE 0.5
#define WGMMA_AFTER       256.0
/* with its stores: 64 of pairs and their conversions, and where they go */
#define WGMMA_AFTER_STORE 512.0
/* Without load 479 and 263 cycles (Luo et al. 2024); the memory is busy meanwhile. */
#define TRIP_NS      800.0
#define NEAR_TRIP_NS 300.0
#define SHARED_SHARE 0.9
/* a clock and multiprocessor (CUDA C++ Programming Guide, arithmetic instructions) */
#define EXPONENTIALS 16.0
#define LAUNCH_NS    1000.0
#define WAIT_NS      8000.0 /* from the end of a GPU's work until the host goes on, and back */
#define MMA_BF16     4096.0 /* operations of m16n8k16 */
#define MMA_INT8     8192.0

/* Datasheets of NVIDIA, dense rates. mma_share of sm_90: measured by Luo et al. 2024, Benchmarking
 * and Dissecting the Nvidia Hopper GPU Architecture. */
const struct predict_gpu predict_gpus[] = {
	{ "A100", "sm_80", 108, 1410, 2.039e12, 312e12, 1, 25e9 },
	{ "H100", "sm_90", 132, 1755, 3.35e12, 989e12, 0.62, 50e9 },
	{ "H200", "sm_90", 132, 1755, 4.8e12, 989e12, 0.62, 50e9 },
	{ "RTX4090", "sm_80", 128, 2520, 1.008e12, 165e12, 1, 25e9 },
	{ "RTX5090", "sm_120", 170, 2407, 1.792e12, 209e12, 1, 50e9 },
	{ NULL, NULL, 0, 0, 0, 0, 0, 0 },
};

const struct predict_gpu *predict_gpu_find(const char *name)
{
	for (const struct predict_gpu *g = predict_gpus; g->name; g++)
		if (strcasecmp(g->name, name) == 0)
			return g;
	return NULL;
}

static void add(struct predict_kernel *out, int *n, struct predict_kernel k)
{
	if (k.launches && *n < PREDICT_KERNELS_MAX)
		out[(*n)++] = k;
}

/* Sizes of a layer. */
struct sizes {
	double dim, q, kv, hidden, vocab, layers;
};

static struct sizes sizes_of(const struct lm_config *c)
{
	return (struct sizes){ c->dim, (double)c->heads * c->head_dim,
		(double)c->kv_heads * c->head_dim, c->hidden, c->vocab, c->layers };
}

/* Weights of the linear layers of one layer. */
static double layer_weights(const struct sizes *s)
{
	return s->dim * (2 * s->q + 2 * s->kv + 3 * s->hidden);
}

/* results: numbers of them. */
static struct predict_kernel product(const struct predict_step *s, const char *part,
	uint64_t launches, double operations, double bytes, double results)
{
	return (struct predict_kernel){ .kernel = s->library ? "cuBLASLt" :
			s->wgmma ? "wide_product_kernel<false, false, false>" :
				   "multiply_kernel<bf16_numbers, false, false, 4, 4>",
		.part = part,
		.launches = launches,
		.operations = operations,
		.by_wgmma = !s->library && s->wgmma,
		/* eight warps make 128 x 256 of the result, for which there are about so many
		 * tiles */
		.after = 8 * WGMMA_AFTER_STORE * results / (128 * 256),
		.bytes = bytes };
}

/* Whether SwiGLU and its gradient are kernels of their own, as kernels/lm/cuda/swiglu.cu
 * chooses. */
static bool gates_apart(const struct predict_step *s)
{
	return s->library && s->wgmma;
}

/* Whether SwiGLU is made with the product of its g and u, as kernels/lm/cuda/swiglu_sm90a.cu
 * chooses. */
static bool gates_together(const struct predict_step *s)
{
	const struct lm_config *c = &s->model;

	return !gates_apart(s) && s->wgmma && s->tokens % 128 == 0 &&
		c->hidden % 128 == 0 && c->dim > 448 &&
		s->tokens / 128 * (c->hidden / 128) >= 100;
}

/* SwiGLU with the product of its g and u: eight warps make a tile of 128 rows and 128 columns of
 * both, and y of it while they multiply the next. */
static struct predict_kernel swiglu_forward(const struct predict_step *s,
	const struct sizes *z)
{
	const char *name = "swiglu_product_kernel<true>";
	double t = (double)s->tokens, tiles = z->layers * t / 128 * z->hidden / 128;
	struct predict_kernel k = { .kernel = name,
		.part = "SwiGLU, product",
		.launches = s->model.layers,
		.operations = z->layers * 4 * t * z->dim * z->hidden,
		.bytes = z->layers *
			(t * (z->dim * 2 + z->hidden * 6) + z->dim * z->hidden * 4),
		.by_wgmma = true,
		.after = 8 * tiles * WGMMA_AFTER,
		.tiles = tiles / z->layers };

	/* all of a tile, which has one turn of the loop over steps in it */
	k.phases[0] = (struct predict_phase){ name, 0, 0, 8 * tiles, 0 };
	return k;
}

/* One that computes little for each byte. moved: as in predict_kernel. */
static struct predict_kernel rows_kernel(const char *kernel, const char *part,
	uint64_t launches, double bytes, double moved)
{
	return (struct predict_kernel){ .kernel = kernel,
		.part = part,
		.launches = launches,
		.bytes = bytes,
		.moved = moved };
}

static const char *attend_name(const struct lm_config *c, const char *narrow,
	const char *wide, const char *other)
{
	return c->head_dim == 64 ? narrow : c->head_dim == 128 ? wide : other;
}

/* As kernels/lm/cuda/rows.cu chooses: of 512 or 768 columns for each of the warps that share a
 * row. */
static const char *norm_back_name(uint32_t dim)
{
	uint32_t share = 1;

	while (share * 768 < dim && share < 8)
		share *= 2;
	if (dim % 8 || share * 768 < dim)
		return "norm_back_kernel<unsigned short>";
	return share * 512 >= dim ? "norm_back_once_kernel<unsigned short, 2>" :
				    "norm_back_once_kernel<unsigned short, 3>";
}

/* The gradient of SwiGLU with the product that its dy is: four warps make a tile of 128 x 128, by
 * steps of 32 along dim, then eight turns over its rows. */
static struct predict_kernel swiglu_back(const struct predict_step *s,
	const struct sizes *z)
{
	const char *name = "swiglu_back_product_kernel";
	double t = (double)s->tokens, steps = z->dim / 32;
	double warps = 4 * z->layers * t / 128 * z->hidden / 128;
	struct predict_kernel k = { .kernel = name,
		.part = "SwiGLU backward, product",
		.launches = s->model.layers,
		.operations = z->layers * 2 * t * z->dim * z->hidden,
		.bytes = z->layers *
			(t * (z->dim * 2 + z->hidden * 8) + z->dim * z->hidden * 2) };

	/* all of a tile, which has one turn of each loop in it */
	k.phases[0] = (struct predict_phase){ name, 0, 0, warps, 0 };
	k.phases[1] = (struct predict_phase){ name, 2, 0, warps * (steps - 1), 0 };
	k.phases[2] = (struct predict_phase){ name, 1, 0, warps * 7, 0 };
	return k;
}

/* Blocks of 2,048 tokens, each on a multiprocessor: as kernels/lm/cuda/embed_back.cu sorts and
 * merges them. */
#define SORT_ROWS 2048.0

static struct predict_kernel sort_tokens(double t)
{
	const char *name = "sort_tokens_kernel";
	struct predict_kernel k = { .kernel = name,
		.part = "embedding backward, order",
		.launches = 1,
		.bytes = t * 12 };
	double turns = log2(SORT_ROWS) * (log2(SORT_ROWS) + 1) / 2;
	/* of 132 multiprocessors */
	double idle = fmax(132 / ceil(t / SORT_ROWS), 1);

	/* the loop of the compares; a pair for each thread of 32 warps */
	k.phases[0] = (struct predict_phase){ name, 3, 0,
		idle * ceil(t / SORT_ROWS) * 32 * turns, 0 };
	return k;
}

static struct predict_kernel merge_tokens(double t)
{
	const char *name = "merge_tokens_kernel";
	struct predict_kernel k = { .kernel = name,
		.part = "embedding backward, merge",
		.launches = 1,
		.bytes = t * 16 };

	/* four blocks at a time, in twelve steps */
	k.phases[0] = (struct predict_phase){ name, 2, 0,
		t / 32 * ceil(t / SORT_ROWS / 4) * 12, 0 };
	/* each step waits for what the one before has found */
	k.near_trips = ceil(t / SORT_ROWS / 4) * 12;
	return k;
}

/* The products of the layers, but for what SwiGLU's own product reads and writes. */
static void train_layers(struct predict_kernel *out, int *n, const struct predict_step *s,
	const struct sizes *z)
{
	double t = (double)s->tokens, l = z->layers, w = layer_weights(z);
	bool together = gates_together(s);
	double own = together ? 2 * z->dim * z->hidden : 0;
	double dy = gates_apart(s) ?
		0 :
		z->dim * z->hidden; /* the product of SwiGLU's gradient */

	add(out, n,
		product(s, "layers forward", (together ? 3 : 4) * s->model.layers,
			2 * t * (w - own) * l,
			l *
				(2 * (w - own) +
					t *
						(z->dim * (together ? 12 : 14) +
							z->q * 4 + z->kv * 4 +
							z->hidden * (together ? 2 : 6))),
			l * t *
				(z->q + 2 * z->kv + 2 * z->dim +
					(together ? 0 : 2 * z->hidden))));
	add(out, n,
		product(s, "layers backward", (dy ? 7 : 8) * s->model.layers,
			4 * t * w * l - 2 * t * dy * l,
			l *
				(8 * w - 2 * dy +
					t *
						(z->dim * 22 + z->q * 8 + z->kv * 8 +
							z->hidden * 10)),
			/* of inputs; those of weights are few */
			l * (t * (2 * z->dim + z->q) + w)));
}

/* One of attention. queries, keys: how often each of their sides is read or written; products: of
 * queries with keys. */
static void train_attention(struct predict_kernel *out, int *n,
	const struct predict_step *s, struct predict_kernel k, double queries,
	double keys, double products)
{
	const struct lm_config *c = &s->model;
	struct sizes z = sizes_of(c);
	double t = (double)s->tokens;

	k.launches = c->layers;
	k.bytes = z.layers * t * (queries * z.q + keys * z.kv) * 2;
	/* a product is of half of the keys */
	k.operations = z.layers * products * (t * (double)s->length / 2 * z.q * 2);
	k.exponentials = z.layers * t * (double)s->length / 2 * c->heads;
	add(out, n, k);
}

/* Tasks of 128 rows of a head, by kernels/lm/cuda/attend_sm90a.cu and
 * kernels/lm/cuda/attend_back_sm90a.cu, where these take them. */
#define WIDE_SIDE 128.0

static double wide_tasks(const struct predict_step *s, uint64_t heads)
{
	const struct lm_config *c = &s->model;
	double tasks = (double)s->tokens / (double)s->length *
		ceil((double)s->length / WIDE_SIDE) * (double)heads;

	/* two of a multiprocessor */
	return s->wgmma && (c->head_dim == 64 || c->head_dim == 128) && tasks >= 264 ?
		tasks :
		0;
}

/* Eight warps make a task. Its kernel's code is one loop over tasks, in it one over tiles of 128
 * keys of which some are not seen, and in that one over those that are seen: the first tile of a
 * task is in none of the two, and another, where there are more, is one of the edge. */
static struct predict_kernel wide_attention(const struct predict_step *s, double tasks)
{
	const char *name = s->model.head_dim == 64 ? "attend_wide_kernel<64, false>" :
						     "attend_wide_kernel<128, false>";
	double most = ceil((double)s->length / WIDE_SIDE), tiles = (most + 1) / 2;
	double edges = (most - 1) / most, warps = 8 * tasks * s->model.layers;
	struct predict_kernel k = { .kernel = name,
		.part = "attention forward",
		.repeated = 1 + WIDE_SIDE / (double)s->length,
		.by_wgmma = true,
		.tiles = tasks };

	k.phases[0] = (struct predict_phase){ name, 0, 0, warps, 0 };
	k.phases[1] = (struct predict_phase){ name, 1, 0, warps * (edges - 1), 0 };
	k.phases[2] = (struct predict_phase){ name, 2, 0, warps * (tiles - 1 - 2 * edges),
		0 };
	return k;
}

/* Rows of the other side of a tile, and own rows of each of two warpgroups. */
#define WIDE_BACK 64.0

/* The same of the gradient: of keys, which see all tiles but their first one whole, of several
 * heads of queries; or of queries, whose last tile is one of the edge. */
static struct predict_kernel wide_back(const struct predict_step *s, double tasks,
	bool keys)
{
	const struct lm_config *c = &s->model;
	double most = ceil((double)s->length / WIDE_BACK), tiles = (most + 1) / 2;
	double repeats = keys ? (double)c->heads / (double)c->kv_heads : 1;
	double edges = keys ? 0 : (most - 1) / most, warps = 8 * tasks * c->layers;
	const char *name = c->head_dim == 64 ? keys ?
					       "attend_back_wide_kernel<64, true>" :
					       "attend_back_wide_kernel<64, false>" :
		keys                         ? "attend_back_wide_kernel<128, true>" :
					       "attend_back_wide_kernel<128, false>";
	struct predict_kernel k = { .kernel = name,
		.part = keys ? "attention backward, keys" : "attention backward, queries",
		.repeated = 1 + WIDE_BACK / (double)s->length,
		.by_wgmma = true,
		.tiles = tasks };

	/* one loop over tasks, where there are several heads one over these, one over tiles, and
	 * the hot one */
	k.phases[0] = (struct predict_phase){ name, 0, 0, warps, 0 };
	k.phases[1] = (struct predict_phase){ name, 2, 0, warps * repeats * (edges - 1),
		0 };
	k.phases[2] = (struct predict_phase){ name, 4, 0,
		warps * repeats * (tiles - 1 - 2 * edges), 0 };
	if (keys)
		k.phases[3] = (struct predict_phase){ name, 1, 0, warps * (repeats - 1),
			0 };
	return k;
}

/* The gradient's kernels: without wgmma, or where they are few, others make these. */
static struct predict_kernel attention_back(const struct predict_step *s, bool keys)
{
	const struct lm_config *c = &s->model;
	double tasks = wide_tasks(s, keys ? c->kv_heads : c->heads);
	/* tiles at the diagonal are computed whole: of 64 or 32 rows */
	double edge = 1 + (c->head_dim == 64 ? 64.0 : 32.0) / (double)s->length;

	if (tasks > 0)
		return wide_back(s, tasks, keys);
	return (struct predict_kernel){ .kernel = keys ?
			attend_name(c, "attend_back_tensor_kernel<64, 32, 2, true>",
				"attend_back_tensor_kernel<128, 32, 1, true>",
				"attend_back_kv_kernel<unsigned short>") :
			attend_name(c, "attend_back_tensor_kernel<64, 32, 2, false>",
				"attend_back_tensor_kernel<128, 32, 1, false>",
				"attend_back_q_kernel<unsigned short>"),
		.part = keys ? "attention backward, keys" : "attention backward, queries",
		.repeated = edge };
}

static void train_attentions(struct predict_kernel *out, int *n,
	const struct predict_step *s)
{
	const struct lm_config *c = &s->model;
	double tasks = wide_tasks(s, c->heads);
	/* tiles at the diagonal are computed whole: of 128 or 64 queries */
	double edge = 1 + (c->head_dim == 64 ? 128.0 : 64.0) / (double)s->length;

	train_attention(out, n, s,
		tasks > 0 ?
			wide_attention(s, tasks) :
			(struct predict_kernel){ .kernel = attend_name(c,
							 "attend_tensor_kernel<64, 2>",
							 "attend_tensor_kernel<128, 1>",
							 "attend_kernel<unsigned short>"),
				.part = "attention forward",
				.repeated = edge },
		3, 2, 2);
	train_attention(out, n, s, attention_back(s, true), 3, 4, 4);
	train_attention(out, n, s, attention_back(s, false), 4, 2, 3);
}

static void train_embedding(struct predict_kernel *out, int *n, double t,
	const struct sizes *z)
{
	struct predict_kernel k;

	/* x, and h of the first norm; the row of the table is read again from the level-1 cache */
	add(out, n,
		rows_kernel("embed_norm_kernel<unsigned short>", "embedding, first norm",
			1, t * z->dim * 8, t * z->dim * 14));
	add(out, n, sort_tokens(t));
	add(out, n, merge_tokens(t));
	/* each token's row of the table once: tokens of all kinds are most where all are as
	 * frequent */
	k = rows_kernel("embed_back_kernel", "embedding backward", 1,
		t * z->dim * 4 + z->vocab * -expm1(-t / z->vocab) * z->dim * 8, 0);
	/* but of text one token in 25 is the same, whose rows a block adds sixteen at a time while
	 * the other blocks work; their keys come beside the rows before them */
	k.trips = t / 25 / 16;
	k.near_trips = 1;
	add(out, n, k);
}

/* Norms, positions of keys, and SwiGLU. */
static void train_rows(struct predict_kernel *out, int *n, const struct predict_step *s,
	const struct sizes *z)
{
	double t = (double)s->tokens, l = z->layers;
	uint64_t layers = s->model.layers;
	struct predict_kernel k;

	add(out, n,
		rows_kernel("norm_kernel<unsigned short>", "norm", 2 * layers,
			2 * l * t * z->dim * 6, 2 * l * t * z->dim * 14));
	/* one pass over dy, y, and the gradient in two halves, which there is not yet before the
	 * last norm, and which the first norm's stores as f32 instead; the norm's weights are
	 * loaded twice, from the level-1 cache */
	add(out, n,
		rows_kernel(norm_back_name(s->model.dim), "norm backward", 2 * layers + 1,
			(2 * l * 12 + 8) * t * z->dim, (2 * l + 1) * t * z->dim * 20));
	k = rows_kernel("join_kernel", "norm's weights backward", 2 * layers + 1,
		(2 * l + 1) * fmin(t / 64, 512) * z->dim * 8, 0);
	/* eight warps, 16 loads at a time */
	k.near_trips = (2 * l + 1) * ceil(fmin(t / 64, 512) / 8 / 16);
	add(out, n, k);
	add(out, n,
		rows_kernel("rotate_kernel<unsigned short>", "positions of keys", layers,
			l * t * z->kv * 4, l * t * z->kv * 6));
	add(out, n,
		gates_together(s) ? swiglu_forward(s, z) :
				    rows_kernel("swiglu_kernel<unsigned short>", "SwiGLU",
					    layers, l * t * z->hidden * 6, 0));
	add(out, n,
		gates_apart(s) ?
			rows_kernel("swiglu_back_kernel<unsigned short>",
				"SwiGLU backward", layers, l * t * z->hidden * 12, 0) :
			swiglu_back(s, z));
}

/* The output layer and the loss. */
static void train_head(struct predict_kernel *out, int *n, const struct predict_step *s,
	const struct sizes *z)
{
	double t = (double)s->tokens;
	/* of rows whose logits are in memory at once */
	uint64_t groups = (uint64_t)(t * z->vocab * 2 / (512 << 20)) + 1;

	add(out, n,
		product(s, "logits", groups, 2 * t * z->dim * z->vocab,
			t * z->vocab * 2 + t * z->dim * 2 +
				(double)groups * z->dim * z->vocab * 2,
			t * z->vocab));
	add(out, n,
		rows_kernel("target_kernel<unsigned short, unsigned short>",
			"logits of the targets", groups, t * z->dim * 4, 0));
	/* read twice, the second time from the level-2 cache; two loops like the hot one */
	add(out, n,
		rows_kernel("loss_kernel<unsigned short, true>", "loss", groups,
			t * z->vocab * 4, t * z->vocab * 4));
	add(out, n,
		product(s, "logits backward", 2 * groups, 4 * t * z->dim * z->vocab,
			t * z->vocab * 4 + t * z->dim * 4 +
				(double)groups * z->dim * z->vocab * 10,
			t * z->dim + (double)groups * z->dim * z->vocab));
}

/* The optimiser, of p parameters. */
static void train_update(struct predict_kernel *out, int *n, double p)
{
	struct predict_kernel k;

	add(out, n, rows_kernel("squares_kernel", "norm of the gradient", 1, p * 4, 0));
	/* one block: a double of each 16,384 gradients, 16 of them at a time */
	k = rows_kernel("clip_kernel", "clipping", 1, p / 2048, 0);
	k.trips = ceil(p / 16384 / 256 / 16);
	add(out, n, k);
	add(out, n, rows_kernel("adamw_kernel", "AdamW", 1, p * 30, 0));
}

int predict_train(struct predict_kernel *out, const struct predict_step *s)
{
	const struct lm_config *c = &s->model;
	struct sizes z = sizes_of(c);
	double t = (double)s->tokens;
	int n = 0;

	train_layers(out, &n, s, &z);
	train_attentions(out, &n, s);
	train_embedding(out, &n, t, &z);
	train_rows(out, &n, s, &z);
	train_head(out, &n, s, &z);
	train_update(out, &n,
		layer_weights(&z) * z.layers + z.vocab * z.dim * (c->tied ? 1 : 2));
	/* tokens and targets, losses, rates and what became of them: each is waited for */
	add(out, &n,
		(struct predict_kernel){ .kernel = "copies",
			.part = "host",
			.launches = 4,
			.waits = 4,
			.host_bytes = t * 12 });
	return n;
}

int predict_token(struct predict_kernel *out, const struct predict_step *s)
{
	const struct lm_config *c = &s->model;
	struct sizes z = sizes_of(c);
	uint64_t layers = c->layers;
	double l = z.layers, w = layer_weights(&z) * l + z.vocab * z.dim;
	double each = s->weight_bytes_32 / 32,
	       keys = l * (double)s->context * 2 * z.kv * 2;
	/* of layers that take a norm, and make it: q, k and v, and g, u and SwiGLU */
	double together = l * z.dim * (z.q + 2 * z.kv + 2 * z.hidden);
	bool bf16 = each == 2, joined = bf16 || s->rows_kernel;
	struct predict_kernel k;
	int n = 0;

	if (bf16) { /* 16 rows for one */
		add(out, &n,
			(struct predict_kernel){ .kernel = "project_bf16_group_kernel",
				.part = "linear layers with norm, SwiGLU",
				.launches = 2 * layers,
				.bytes = together * each,
				.operations = 2 * together,
				.repeated = 16,
				/* a block finds the norm's factor, then reads x again,
				 * while its weights are on their way */
				.near_trips = 4.0 * (double)layers });
		add(out, &n,
			(struct predict_kernel){ .kernel = "project_bf16_rows_kernel<1>",
				.part = "linear layers",
				.launches = 2 * layers + 1,
				.bytes = (w - together) * each,
				.operations = 2 * (w - together),
				.repeated = 16,
				.near_trips = 4.0 * (double)layers });
	} else if (s->rows_kernel) {
		k = rows_kernel(s->rows_kernel, "linear layers with norm, SwiGLU",
			2 * layers, together * each, 0);
		k.near_trips = 4.0 * (double)layers; /* as above */
		add(out, &n, k);
		add(out, &n,
			rows_kernel(s->rows_kernel, "linear layers", 2 * layers + 1,
				(w - together) * each, 0));
	} else {
		add(out, &n,
			rows_kernel("project_wide_kernel<0, 1>", "linear layers",
				7 * layers + 1, w * each, w * each * 2));
	}
	/* a block a part, of which the last joins them: what each leaves for that stays in the
	 * level-2 cache. A position, a list of pages, then keys and values; a counter, then the
	 * parts */
	k = rows_kernel(c->head_dim == 64 ? "paged_rows_kernel<0, 64>" :
					    "paged_rows_kernel<0, 128>",
		"attention", layers, keys, 0);
	k.trips = l;
	k.near_trips = 4 * l;
	add(out, &n, k);
	add(out, &n,
		rows_kernel("rotate_put_kernel", "positions, cache", layers,
			l * ((z.q + z.kv) * 8 + z.kv * 12), 0));
	add(out, &n,
		rows_kernel("norm_kernel<float>", "norm", joined ? 1 : 2 * layers + 1,
			(joined ? 1 : 2 * l + 1) * z.dim * 8, 0));
	add(out, &n,
		rows_kernel("swiglu_kernel<float>", "SwiGLU", joined ? 0 : layers,
			l * z.hidden * 12, 0));
	if (s->rows_kernel)
		add(out, &n,
			rows_kernel("quantize_kernel", "activations to int8",
				2 * layers + 1, l * (z.q + z.hidden) * 6, 0));
	return n;
}

int predict_prompt(struct predict_kernel *out, const struct predict_step *s)
{
	const struct lm_config *c = &s->model;
	struct sizes z = sizes_of(c);
	uint64_t layers = c->layers;
	double t = (double)s->context, l = z.layers, w = layer_weights(&z) * l;
	double each = s->weight_bytes_32 / 32;
	/* norms, products and SwiGLU in few kernels */
	bool together = !s->tensor_kernel && each == 2 && s->wgmma;
	int n = 0;

	if (s->tensor_kernel) {
		/* a tile of 64 rows reads the weights again, from the level-2 cache */
		add(out, &n,
			(struct predict_kernel){ .kernel = s->tensor_kernel,
				.part = "linear layers",
				.launches = 7 * layers,
				.bytes = w * each +
					l * t * (2 * z.dim + z.q + z.hidden) * 1.5,
				.operations = 2 * t * w,
				.is_int8 = true });
		add(out, &n,
			rows_kernel("quantize_kernel", "activations to int8", 4 * layers,
				l * t * (2 * z.dim + z.q + z.hidden) * 5.5, 0));
	} else if (together) {
		/* q, k and v in one launch, g, u and SwiGLU in another */
		add(out, &n,
			(struct predict_kernel){
				.kernel = "project_wgmma_kernel<256u, 2u, false>",
				.part = "linear layers",
				.launches = 3 * layers,
				.bytes = l *
					(z.dim * (2 * z.q + 2 * z.kv + z.hidden) * each +
						t *
							(18 * z.dim + 6 * z.q + 8 * z.kv +
								2 * z.hidden)),
				.operations = 2 * t * l * z.dim *
					(2 * z.q + 2 * z.kv + z.hidden),
				.by_wgmma = true,
				/* eight warps make 128 x 256 numbers */
				.after = 8 * WGMMA_AFTER_STORE * l * t *
					(z.q + 2 * z.kv + 2 * z.dim) / (128 * 256) });
		add(out, &n,
			(struct predict_kernel){
				.kernel = "project_wgmma_kernel<256u, 2u, true>",
				.part = "linear layers with SwiGLU",
				.launches = layers,
				.bytes = l *
					(z.dim * 2 * z.hidden * each +
						t * (2 * z.dim + 4 * z.hidden)),
				.operations = 2 * t * l * z.dim * 2 * z.hidden,
				.by_wgmma = true,
				.after = 8 * WGMMA_AFTER_STORE * l * t * 2 * z.hidden /
					(128 * 256) });
		add(out, &n,
			rows_kernel("round_normed_kernel", "norm to bf16", 2 * layers,
				l * t * 2 * z.dim * 6, 0));
		add(out, &n,
			rows_kernel("round_rows_kernel", "activations to bf16",
				2 * layers, l * t * (z.q + z.hidden) * 6, 0));
	} else if (each == 2) {
		add(out, &n,
			(struct predict_kernel){ .kernel = "project_bf16_tile_kernel",
				.part = "linear layers",
				.launches = 7 * layers,
				.bytes = w * each +
					l * t * (2 * z.dim + z.q + z.hidden) * 6,
				.operations = 2 * t * w });
		add(out, &n,
			rows_kernel("round_kernel", "activations to bf16", 7 * layers,
				l * t * (5 * z.dim + z.q + z.hidden) * 6, 0));
	} else {
		/* four rows share a weight: it is loaded once for them, and x for each */
		add(out, &n,
			rows_kernel("project_wide_kernel<0, 4>", "linear layers",
				7 * layers, w * each, w * t / 4 * (each + 16)));
	}
	/* a tile has 64 pairs of a row and a head, which read keys and values again from the
	 * level-2 cache; four products more of 128 sum the weights, and tiles at the diagonal are
	 * computed whole. Counted instructions are a softcap's, too */
	add(out, &n,
		(struct predict_kernel){ .kernel = c->head_dim == 64 ?
				"paged_prompt_kernel<0, 64>" :
				"paged_prompt_kernel<0, 128>",
			.part = "attention",
			.launches = 2 * layers,
			.bytes = l * t * (z.kv * 4 + z.q * 8),
			.operations = l * t * t / 2 * z.q * 4,
			.repeated = (1 + 64 / t) *
				(1 + 4 / (double)(c->head_dim == 64 ? 64 : 128)),
			.exponentials = l * t * t / 2 * (double)c->heads });
	add(out, &n,
		rows_kernel("paged_put_kernel", "cache", layers, l * t * z.kv * 12, 0));
	add(out, &n,
		rows_kernel("rotate_kernel<float>", "positions", 2 * layers,
			l * t * (z.q + z.kv) * 8, 0));
	add(out, &n,
		rows_kernel("norm_kernel<float>", "norm", together ? 1 : 2 * layers + 1,
			(together ? 1 : 2 * l + 1) * t * z.dim * 8, 0));
	add(out, &n,
		rows_kernel("swiglu_kernel<float>", "SwiGLU", together ? 0 : layers,
			l * t * z.hidden * 12, 0));
	return n;
}

/* --- compression ---------------------------------------------------------------------------- */

#define CHUNK 65536.0 /* symbols: HUFF_CHUNK of kernels/grad/huff.h */

/* What the coder makes of Gaussian values: their bits, as measured (suite compress), how many
 * symbols are used and how many low bits are not coded; the kernels, and how many turns of adjacent
 * lanes find the largest of a block. */
static const struct {
	double bits, used;
	unsigned split, rounds;
	const char *encode, *feed, *decode;
} methods[] = {
	[PREDICT_SIGMA] = { 8 / 1.229, 32, 3, 0, "encode_sigma<false, false>",
		"encode_sigma<false, true>", "decode_levels<6, true>" },
	[PREDICT_Q8] = { 7.52, 32, 3, 5, "encode_blocks<6, false, false>",
		"encode_blocks<6, false, true>", "decode_levels<6, false>" },
	[PREDICT_Q4] = { 3.66, 15, 0, 4, "encode_blocks<7, false, false>",
		"encode_blocks<7, false, true>", "decode_levels<7, false>" },
	[PREDICT_ECQ] = { 3.61, 25, 0, 0, "encode_wide<true, false>",
		"encode_wide<true, true>", "decode_wide<true>" },
};

/* Bytes of n values when coded: 0.72 bits where nine of ten are zero. */
static double coded_bytes(const struct predict_step *s)
{
	return (double)s->values * (s->skewed ? 1.0 / 11 : methods[s->method].bits / 8);
}

/* A plane of n symbols in `planes` pieces, of which `used` differ: its table, its low bits, its
 * streams. Adds phases from *at on. */
static void encode_plane(struct predict_phase *p, int *at, double n, double planes,
	double used, unsigned split)
{
	p[(*at)++] = (struct predict_phase){ "count_block", 0, 0, 0, n };
	/* warps without a symbol that is used pass the loop */
	p[(*at)++] = (struct predict_phase){ "sort_block", 0, 0,
		planes * used / 32 * (256 >> split) / 16, 0 };
	p[(*at)++] = (struct predict_phase){ "lengths_serial", 2, 0, planes * used, 0 };
	p[(*at)++] = (struct predict_phase){ "header_serial", 0, 0, planes * used, 0 };
	if (!split) {
		p[(*at)++] = (struct predict_phase){ "stream_bits<false>", 0, 0, 0, n };
		p[(*at)++] = (struct predict_phase){ "put_stream<false>", 0, 0, n / 512,
			0 };
		return;
	}
	/* by two symbols a look-up: eight cycles a turn */
	p[(*at)++] = (struct predict_phase){ "stream_bits<true>", 0, 0, n / 512, 0 };
	p[(*at)++] = (struct predict_phase){ "put_stream<true>", 0, 0, n / 512, 0 };
	/* the loop holds the code of one low bit */
	p[(*at)++] = (struct predict_phase){ "put_lows_block", 0, 0, n / 512, 0 };
	p[(*at)++] = (struct predict_phase){ "put_lows_block", 1, 0,
		n / 512 * (split - 1), 0 };
}

int predict_encode(struct predict_kernel *out, const struct predict_step *s)
{
	double v = (double)s->values, chunks = ceil(v / CHUNK), coded = coded_bytes(s);
	/* symbols are read again from the level-2 cache */
	struct predict_kernel k = { .kernel = "encode_kernel",
		.part = "tables and codes",
		.launches = 1,
		.bytes = v + coded };
	struct predict_phase *p = k.phases;
	int n = 0, at = 0;

	if (methods[s->method].split)
		p[at++] = (struct predict_phase){ "sample_block", 0, 0, 0, v / 8 };
	if (!s->skewed) {
		encode_plane(p, &at, v, chunks, methods[s->method].used,
			methods[s->method].split);
	} else {
		/* one of ten is a token; of the most in a warp there are eight in 32 symbols */
		p[at++] = (struct predict_phase){ "count_block", 0, 0, 0, v };
		/* 16 symbols a turn; four warps have symbols that are used */
		p[at++] = (struct predict_phase){ "layout_block", 0, 0, chunks * 4 * 16,
			0 };
		p[at++] = (struct predict_phase){ "list_others", 0, 0, v / 1024, 0 };
		p[at++] = (struct predict_phase){ "list_others", 1, 0, 7 * v / 1024, 0 };
		p[at++] = (struct predict_phase){ "make_tokens", 0, 0, v / 10 / 128, 0 };
		p[at++] = (struct predict_phase){ "scan_block", PREDICT_ALL, 0,
			v / 1024 + v / 10 / 128, 0 };
		p[at++] = (struct predict_phase){ "put_wide_lows_block", 0, 0,
			v / 10 / 64, 0 };
		encode_plane(p, &at, v / 10, chunks, 128, 0);
	}
	add(out, &n, k);
	add(out, &n, rows_kernel("place_kernel", "places", 1, chunks * 12, 0));
	add(out, &n, rows_kernel("gather_kernel", "together", 1, 2 * coded, 0));
	return n;
}

int predict_decode(struct predict_kernel *out, const struct predict_step *s)
{
	double v = (double)s->values, chunks = ceil(v / CHUNK);
	/* symbols are written, and again with their low bits, or after runs */
	struct predict_kernel k = { .kernel = "decode_kernel",
		.part = "symbols",
		.launches = 1,
		.bytes = coded_bytes(s) + v * (s->skewed ? 1.2 : 3) };
	double symbols = s->skewed ? v / 10 : v;
	double used = s->skewed ? 128 : methods[s->method].used;
	unsigned split = methods[s->method].split;
	struct predict_phase *p = k.phases;
	int n = 0, at = 0;

	if (!s->skewed && !split)
		k.bytes = coded_bytes(s) + v;

	/* a lane reads all lengths; each symbol's part of the table is filled by the warp */
	p[at++] = (struct predict_phase){ "get_plane_warp", 0, 0, chunks * used, 0 };
	/* a step of eight symbols a lane has eight look-ups */
	p[at++] = (struct predict_phase){ "get_plane_warp", 0, 8, symbols / 256, 0 };
	if (s->skewed) {
		p[at++] = (struct predict_phase){ "fill_warp", 0, 0, v / 512, 0 };
		p[at++] = (struct predict_phase){ "get_runs_warp", 0, 0, symbols / 32,
			0 };
	} else if (split) {
		/* the longest is that of single symbols; the loop holds the code of one low bit */
		p[at++] = (struct predict_phase){ "add_lows_warp", 1, 0, v / 512, 0 };
		p[at++] = (struct predict_phase){ "add_lows_warp", 2, 0, 2 * v / 512, 0 };
	}
	add(out, &n, k);
	return n;
}

/* The sums and symbols of a chunk by its sigma. A block sums its chunk, then reads it again from
 * the level-2 cache, as there are no more blocks than multiprocessors. */
static struct predict_kernel sigma_kernel(double v, bool fed)
{
	const char *name = fed ? methods[PREDICT_SIGMA].feed :
				 methods[PREDICT_SIGMA].encode;
	struct predict_kernel k = { .kernel = name,
		.part = "values to symbols",
		.launches = 1,
		.bytes = v * (fed ? 13 : 5) };

	/* a warp has two runs of 256 values, four of a lane in a turn of the loop in that over
	 * runs */
	k.phases[0] = (struct predict_phase){ name, 1, 0, v / 512, 0 };
	k.phases[1] = (struct predict_phase){ name, fed ? 3 : 4, 0, v / 128 - v / 512,
		0 };
	/* symbols, of four values of a lane */
	k.phases[2] = (struct predict_phase){ name, 2, 0, v / 128, 0 };
	return k;
}

/* Magnitudes are counted, four values a lane in a turn, of four cycles of shared memory; each block
 * adds what it has counted. */
static struct predict_kernel spread(double v, bool fed)
{
	struct predict_kernel k = { .kernel = fed ? "spread_kernel<true>" :
						    "spread_kernel<false>",
		.part = "magnitudes",
		.launches = 1,
		.bytes = v * (fed ? 8 : 4) };

	k.phases[0] = (struct predict_phase){ k.kernel, 0, 4, v / 128, 0 };
	k.phases[1] = (struct predict_phase){ k.kernel, 0, 1, ceil(v / CHUNK) * 8192 / 32,
		0 };
	return k;
}

static struct predict_kernel levels_kernel(const char *name, const char *part,
	double bytes, double turns, double more_turns)
{
	struct predict_kernel k = { .kernel = name,
		.part = part,
		.launches = 1,
		.bytes = bytes };

	/* the longest loop is all of what a turn does; where it holds another, once */
	k.phases[0] = (struct predict_phase){ name, 0, 0, turns, 0 };
	if (more_turns > 0)
		k.phases[1] = (struct predict_phase){ name, 1, 0, more_turns, 0 };
	return k;
}

/* Symbols, and with feedback the sum before and the rest after them, in one kernel; another codes.
 * One could do both: tables belong to a chunk, and its symbols would stay in the level-2 cache.
 * That saves the two bytes that a symbol moves besides and no instruction, which is what limits the
 * coder: of 2^27 int8 values by sigma on an H100 sums and symbols issue for 399 us (223 by their
 * bytes) and tables and codes for 240, in one kernel as in two; of q4 with feedback 571 (579) and
 * 232, in one kernel 803 where two take 811. */
int predict_compress(struct predict_kernel *out, const struct predict_step *s)
{
	double v = (double)s->values, turns = v / 256;
	unsigned rounds = methods[s->method].rounds;
	bool fed = s->feedback;
	int n = 0;

	if (s->method == PREDICT_ECQ)
		add(out, &n, spread(v, fed));
	if (s->method == PREDICT_SIGMA)
		add(out, &n, sigma_kernel(v, fed));
	else
		add(out, &n,
			levels_kernel(fed ? methods[s->method].feed :
					    methods[s->method].encode,
				"values to symbols", v * (fed ? 13 : 5), turns,
				rounds ? turns * (rounds - 1) : 0));
	return n + predict_encode(out + n, s);
}

int predict_expand(struct predict_kernel *out, const struct predict_step *s)
{
	double v = (double)s->values;
	int n = predict_decode(out, s);

	add(out, &n,
		levels_kernel(methods[s->method].decode, "symbols to values", v * 5,
			s->method == PREDICT_ECQ ? v / 256 : v / 128, 0));
	return n;
}

/* --- times ---------------------------------------------------------------------------------- */

static const struct predict_function *function_of(const struct predict_code *code,
	const char *name)
{
	for (unsigned i = 0; i < code->functions; i++)
		if (strcmp(code->function[i].name, name) == 0)
			return &code->function[i];
	return NULL;
}

/* Returns the loop of a phase, or -1. */
static int loop_of(const struct predict_function *f, const struct predict_phase *p)
{
	int found = p->shared || p->loop >= f->loops ? -1 : (int)p->loop;

	for (unsigned i = 0; p->shared && i < f->loops; i++)
		if (f->shared_cycles[i] == p->shared && f->bytes[i])
			found = (int)i;
	return found;
}

/* Sums what warps issue in all phases, and shared memory's cycles. Returns whether all loops are
 * known. */
static bool sum_phases(const struct predict_kernel *k, const struct predict_code *code,
	double *instructions, double *cycles)
{
	*instructions = *cycles = 0;
	for (const struct predict_phase *p = k->phases; p->function; p++) {
		const struct predict_function *f = function_of(code, p->function);
		int loop = f ? loop_of(f, p) : -1;
		double turns = p->turns;

		if (f && p->loop == PREDICT_ALL) {
			*instructions += turns * f->all;
			continue;
		}
		if (loop < 0 || (p->symbols > 0 && !f->shared_cycles[loop]))
			return false;
		if (p->symbols > 0)
			turns = p->symbols / 32 / f->shared_cycles[loop];
		*instructions += turns * f->instructions[loop];
		*cycles += turns * f->shared_cycles[loop];
	}
	return true;
}

struct predict_time predict_time_of(const struct predict_gpu *gpu,
	const struct predict_kernel *k, const struct predict_code *code)
{
	bool library = strcmp(k->kernel, "cuBLASLt") == 0 || k->waits > 0;
	double peak = gpu->bf16_flops * (k->is_int8 ? 2 : 1);
	double moved = k->moved > 0 ? k->moved : k->bytes;
	double turns = 0; /* of warps, through the hot loop */
	double issued = 0, shared = 0;
	/* of all multiprocessors in a millisecond */
	double cycles = (double)gpu->sm_count * gpu->clock_mhz * 1e3;
	double operations = k->operations * (k->repeated > 0 ? k->repeated : 1);
	struct predict_time t = { .hbm_ns = k->bytes / (gpu->memory_bps * MEMORY_SHARE) *
			1e9,
		.launch_ns = (double)k->launches * LAUNCH_NS + k->waits * WAIT_NS +
			k->host_bytes / gpu->host_bps * 1e9,
		.latency_ns = k->trips * TRIP_NS + k->near_trips * NEAR_TRIP_NS };

	if (!k->by_fma)
		t.tensor_ns = operations /
			(peak *
				(library ? LIBRARY_SHARE :
						k->by_wgmma ?
					   WGMMA_SHARE :
					   gpu->mma_share * MMA_SHARE)) *
			1e9;
	if (k->by_wgmma)
		t.tensor_ns += k->after / (4 * cycles * WGMMA_ISSUE_SHARE) * 1e6;
	if (k->tiles > gpu->sm_count)
		t.tensor_ns *= ceil(k->tiles / gpu->sm_count) /
			(k->tiles / gpu->sm_count);
	if (k->phases[0].function) {
		t.issue_known = code && sum_phases(k, code, &issued, &shared);
		if (t.issue_known) {
			t.issue_ns = issued / (4 * cycles * ISSUE_SHARE) * 1e6;
			t.shared_ns = shared / (cycles * SHARED_SHARE) * 1e6;
		}
	} else if (k->by_wgmma) {
		/* a few instructions for each product of 64 x 256 */
		t.issue_known = code;
	} else if (code && k->by_fma && code->fmas)
		turns = operations / 64 / (double)code->fmas;
	else if (code && k->operations > 0 && code->mmas)
		turns = operations / (k->is_int8 ? MMA_INT8 : MMA_BF16) /
			(double)code->mmas;
	else if (code && k->operations == 0 && code->hot_bytes)
		turns = moved / (double)(32 * code->hot_bytes);
	t.issue_known = t.issue_known || library || turns > 0;
	if (turns > 0) {
		t.issue_ns = turns * (double)code->hot_instructions /
			(4 * cycles * ISSUE_SHARE) * 1e6;
		t.shared_ns = turns * (double)code->hot_shared_cycles *
			(k->shared_part > 0 ? k->shared_part : 1) /
			(cycles * SHARED_SHARE) * 1e6;
	}
	if (t.issue_known)
		t.issue_ns = fmax(t.issue_ns,
			k->exponentials * (k->repeated > 0 ? k->repeated : 1) /
				(EXPONENTIALS * cycles * SHARED_SHARE) * 1e6);
	t.ns = t.hbm_ns;
	if (t.tensor_ns > t.ns)
		t.limit = PREDICT_TENSOR, t.ns = t.tensor_ns;
	if (t.issue_ns > t.ns)
		t.limit = PREDICT_ISSUE, t.ns = t.issue_ns;
	if (t.shared_ns > t.ns)
		t.limit = PREDICT_SHARED, t.ns = t.shared_ns;
	if (t.latency_ns > t.ns)
		t.limit = PREDICT_LATENCY, t.ns = t.latency_ns;
	if (t.launch_ns > t.ns)
		t.limit = PREDICT_LAUNCH;
	t.ns += t.launch_ns;
	return t;
}
