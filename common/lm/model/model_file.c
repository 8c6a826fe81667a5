/* model_file.c - one view of a model, whatever its file format. */
#include "common/lm/model/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/llama2c.h"
#include "common/lm/model/safetensors.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/dev/team.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

struct model_file {
	enum lm_format format;
	struct lm_config config;
	const struct lm_tensor **tensors; /* in the order of layout.h */
	char *tokenizer;
	struct gguf *gguf;
	struct safetensors *safetensors;
	struct llama2c *llama2c;
	/* models without a file, and quantised ones: the tensors, and the memory of their data */
	struct lm_tensor *made;
	void *memory;
	uint64_t memory_bytes;
};

/* --- tensors ------------------------------------------------------------------------------ */

static int check_tensor(const char *where, const struct lm_tensor *t, const char *name,
	const struct lm_place *p)
{
	if (!t)
		return err_set(EX_DATAERR, "%s: tensor '%s' is missing", where, name);
	if (t->dims != p->dims || t->shape[0] != p->shape[0] ||
		(p->dims == 2 && t->shape[1] != p->shape[1]))
		return err_set(EX_DATAERR,
			p->dims == 1 ? "%s: tensor '%s' is not [%" PRIu64 "]" :
				       "%s: tensor '%s' is not [%" PRIu64 ", %" PRIu64
				       "]",
			where, name, p->shape[0], p->shape[1]);
	if (!lm_type_computes(t->type))
		return err_set(EX_DATAERR,
			"%s: tensor '%s' is of type %s, which cannot be computed with",
			where, name, t->type_name);
	return 0;
}

/* Finds a tensor. Embedding models are saved without the "model." before their names. */
static const struct lm_tensor *find(const struct model_file *s, const char *name)
{
	static const char before[] = "model.";
	const struct lm_tensor *t;

	if (s->gguf)
		return gguf_find_tensor(s->gguf, name);
	t = safetensors_find(s->safetensors, name);
	if (!t && strncmp(name, before, strlen(before)) == 0)
		t = safetensors_find(s->safetensors, name + strlen(before));
	return t;
}

/* Finds every tensor that the config requires. */
static int gather(struct model_file *s, const char *where)
{
	uint32_t n = lm_layout_count(&s->config);

	s->tensors = xcalloc(n, sizeof *s->tensors);
	for (uint32_t i = 0; i < n; i++) {
		char name[LM_NAME_BYTES_MAX];
		struct lm_place p;

		lm_layout_at(&s->config, i, &p);
		if (s->gguf)
			lm_layout_gguf_name(name, &p);
		else
			lm_layout_hf_name(name, &p);
		s->tensors[i] = find(s, name);
		if (check_tensor(where, s->tensors[i], name, &p) < 0)
			return -1;
	}
	return 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether a tensor may be ignored: tables that old files contain but every engine computes, and
 * the output of a tied model, which repeats the embedding. */
static bool may_be_left(const struct model_file *s, const char *name)
{
	return ends_with(name, ".rotary_emb.inv_freq") ||
		ends_with(name, ".attn_rot_embd") ||
		strcmp(name, "rope_freqs.weight") == 0 ||
		strcmp(name, "rope_factors_long.weight") == 0 ||
		strcmp(name, "rope_factors_short.weight") == 0 ||
		(s->config.tied && strcmp(name, "lm_head.weight") == 0);
}

/* Refuses unknown tensors: a model computed without them would be another model. */
static int refuse_others(const struct model_file *s, const char *where)
{
	uint64_t n = s->gguf ? gguf_tensors(s->gguf) : safetensors_count(s->safetensors);
	const struct lm_tensor **used;
	uint32_t count = lm_layout_count(&s->config);
	int rc = 0;

	if (n == count)
		return 0; /* all were found above, so there are no others */
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		const struct lm_tensor *t = s->gguf ? gguf_tensor_at(s->gguf, i) :
						      safetensors_at(s->safetensors, i);
		bool known = may_be_left(s, t->name);

		for (used = s->tensors; !known && used < s->tensors + count; used++)
			known = *used == t;
		if (!known)
			rc = err_set(EX_DATAERR,
				"%s: tensor '%s' has no place in a model of this kind",
				where, t->name);
	}
	return rc;
}

/* --- formats ------------------------------------------------------------------------------ */

/* Reads the JSON object DIR/NAME into *v. Returns 0, also with *v NULL when an optional file is
 * absent, or -1 with err_set(). */
static int read_json(json_t **v, const char *dir, const char *name, bool optional)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = 0;

	*v = NULL;
	buf_addf(&path, "%s/%s", dir, name);
	if (optional && access(path.data, F_OK) < 0 && errno == ENOENT)
		goto out;
	rc = io_read(&text, path.data, CONFIG_BYTES_MAX);
	if (rc < 0)
		goto out;
	*v = json_parse_object(buf_text(&text), text.len, path.data);
	rc = *v ? 0 : -1;
out:
	buf_release(&path);
	buf_release(&text);
	return rc;
}

static int open_directory(struct model_file *s, const char *dir)
{
	struct buf where = BUF_INIT, tokenizer = BUF_INIT;
	json_t *config = NULL, *generation = NULL;
	int rc = -1;

	s->format = LM_FORMAT_SAFETENSORS;
	buf_addf(&where, "%s/config.json", dir);
	buf_addf(&tokenizer, "%s/tokenizer.json", dir);
	if (read_json(&config, dir, "config.json", false) < 0 ||
		read_json(&generation, dir, "generation_config.json", true) < 0 ||
		lm_config_read(&s->config, config, generation, where.data) < 0 ||
		safetensors_open_model(&s->safetensors, dir) < 0 || gather(s, dir) < 0 ||
		refuse_others(s, dir) < 0)
		goto out;
	if (access(tokenizer.data, F_OK) == 0)
		s->tokenizer = buf_take(&tokenizer);
	rc = 0;
out:
	json_decref(config);
	json_decref(generation);
	buf_release(&where);
	buf_release(&tokenizer);
	return rc;
}

/* Refuses a part of a model that is split over several files: the other parts' tensors would be
 * missing. */
static int check_whole(const struct gguf *g, const char *path)
{
	uint64_t parts = 1, no = 0;

	if (gguf_get_u64(g, "split.count", UINT16_MAX, &parts) < 0 ||
		gguf_get_u64(g, "split.no", UINT16_MAX, &no) < 0)
		return -1;
	if (parts <= 1)
		return 0;
	err_set(EX_DATAERR, "%s: it is part %" PRIu64 " of %" PRIu64 " of a model", path,
		no + 1, parts);
	return err_hint(
		"put the parts into one file: llama-gguf-split --merge FIRST OUT");
}

static int open_gguf(struct model_file *s, const char *path)
{
	s->format = LM_FORMAT_GGUF;
	if (gguf_open(&s->gguf, path) < 0 || check_whole(s->gguf, path) < 0 ||
		gguf_llama_config(&s->config, s->gguf) < 0 ||
		gguf_llama_rope(&s->config, s->gguf) < 0 || gather(s, path) < 0)
		return -1;
	if (gguf_find(s->gguf, "tokenizer.ggml.tokens"))
		s->tokenizer = xstrdup(path);
	return refuse_others(s, path);
}

static int open_llama2c(struct model_file *s, const char *path)
{
	uint32_t n;

	s->format = LM_FORMAT_LLAMA2C;
	if (llama2c_open(&s->llama2c, path) < 0)
		return -1;
	s->config = *llama2c_config(s->llama2c);
	n = lm_layout_count(&s->config);
	s->tensors = xcalloc(n, sizeof *s->tensors);
	for (uint32_t i = 0; i < n; i++)
		s->tensors[i] = llama2c_tensor(s->llama2c, i);
	return 0;
}

/* Opens a file that begins with GGUF's magic, or else is a llama2.c model, which has no magic. */
static int open_file(struct model_file *s, const char *path)
{
	char magic[4] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	n = read(fd, magic, sizeof magic);
	close(fd);
	if (n == sizeof magic && gguf_is(magic, sizeof magic))
		return open_gguf(s, path);
	if (ends_with(path, ".safetensors") || ends_with(path, ".json"))
		return err_set(EX_DATAERR,
			"%s: not a model: give the directory that config.json is in",
			path);
	return open_llama2c(s, path);
}

int model_file_open(struct model_file **out, const char *path)
{
	struct model_file *s = xcalloc(1, sizeof *s);
	struct stat st;
	int rc;

	if (stat(path, &st) < 0) {
		rc = err_sys(0, "cannot open '%s'", path);
		/* other programs fetch a model by its name */
		err_hint(
			"a model is a .gguf file, or a folder with safetensors as Hugging Face has them");
	} else {
		rc = S_ISDIR(st.st_mode) ? open_directory(s, path) : open_file(s, path);
	}
	if (rc < 0) {
		model_file_close(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

void model_file_close(struct model_file *s)
{
	if (!s)
		return;
	gguf_close(s->gguf);
	safetensors_close(s->safetensors);
	llama2c_close(s->llama2c);
	if (s->memory)
		munmap(s->memory, s->memory_bytes);
	free(s->made);
	free(s->tensors);
	free(s->tokenizer);
	free(s);
}

/* --- without a file ----------------------------------------------------------------------- */

/* Blocks of 32 numbers: coprime to the row length, so that rows differ. */
#define MADE_BLOCKS 2047
#define MADE_COUNT  ((uint64_t)LM_QUANT_BLOCK * MADE_BLOCKS)
#define MADE_ALIGN  64

/* Describes tensor i, without its numbers, which begin at offset *at. */
static int place_made(struct lm_tensor *t, uint64_t *at, const struct lm_config *c,
	enum lm_type type, uint32_t i)
{
	struct lm_place p;

	lm_layout_at(c, i, &p);
	lm_layout_hf_name(t->name, &p);
	t->type = p.dims == 1 ? LM_F32 : type;
	snprintf(t->type_name, sizeof t->type_name, "%s", lm_type_name(t->type));
	t->dims = p.dims;
	memcpy(t->shape, p.shape, sizeof p.shape);
	t->count = p.count;
	if (p.shape[p.dims - 1] % lm_type_block(t->type))
		return err_set(EX_USAGE,
			"rows of %" PRIu64 " numbers are no whole blocks of %s",
			p.shape[p.dims - 1], lm_type_name(type));
	if (lm_type_bytes(t->type, t->count, &t->bytes) < 0 ||
		__builtin_add_overflow(*at,
			(t->bytes + MADE_ALIGN - 1) / MADE_ALIGN * MADE_ALIGN, at) ||
		*at > INT64_MAX)
		return err_set(EX_DATAERR, "a model beyond 64 bits");
	return 0;
}

/* Returns MADE_COUNT random numbers of the type. */
static void *made_block(enum lm_type type, uint64_t seed, uint64_t *bytes)
{
	float *values = xmalloc(MADE_COUNT * sizeof *values);
	struct rng rng;
	void *block;

	rng_seed(&rng, seed, 0);
	for (uint64_t i = 0; i < MADE_COUNT; i++)
		values[i] = (float)((rng_f64(&rng) * 2 - 1) * 0.02 * sqrt(3));
	*bytes = 0;
	lm_type_bytes(type, MADE_COUNT, bytes);
	block = xmalloc(*bytes);
	lm_from_f32(block, values, type, MADE_COUNT);
	free(values);
	return block;
}

static bool is_norm(const struct lm_config *c, uint32_t i)
{
	struct lm_place p;

	lm_layout_at(c, i, &p);
	return p.part == LM_ATTN_NORM || p.part == LM_FFN_NORM || p.part == LM_OUT_NORM;
}

/* Fills in the numbers; each tensor continues in the random block where the one before ended. */
static void fill_made(struct model_file *s, uint32_t n, enum lm_type type, uint64_t seed)
{
	uint64_t block_bytes, at = 0, from = 0;
	unsigned char *block = made_block(type, seed, &block_bytes);

	for (uint32_t i = 0; i < n; i++) {
		struct lm_tensor *t = &s->made[i];
		unsigned char *to = (unsigned char *)s->memory + at;
		float one = is_norm(&s->config, i) ? 1 : 0;

		t->data = to;
		at += (t->bytes + MADE_ALIGN - 1) / MADE_ALIGN * MADE_ALIGN;
		for (uint64_t k = 0; t->dims == 1 && k < t->count; k++)
			memcpy(to + 4 * k, &one, sizeof one);
		for (uint64_t k = 0, part; t->dims > 1 && k < t->bytes; k += part) {
			part = block_bytes - from < t->bytes - k ? block_bytes - from :
								   t->bytes - k;
			memcpy(to + k, block + from, part);
			from = (from + part) % block_bytes;
		}
		s->tensors[i] = t;
	}
	free(block);
}

/* Maps memory for the model, as huge pages where the system has them. */
static int map_made(struct model_file *s)
{
	s->memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->memory == MAP_FAILED) {
		s->memory = NULL;
		return err_sys(EX_OSERR, "no memory for a model of %" PRIu64 " bytes",
			s->memory_bytes);
	}
	madvise(s->memory, s->memory_bytes, MADV_HUGEPAGE);
	return 0;
}

int model_file_make(struct model_file **out, uint64_t *bytes, const struct lm_config *c,
	enum lm_type type, uint64_t seed)
{
	struct model_file *s = xcalloc(1, sizeof *s);
	uint32_t n = 0;
	int rc = lm_config_check(c, "the model to be made");

	if (rc == 0 && !lm_type_converts(type))
		rc = err_set(EX_USAGE, "no model of the type %s can be made",
			lm_type_name(type));
	if (rc == 0) {
		s->format = LM_FORMAT_MADE;
		s->config = *c;
		n = lm_layout_count(c);
		s->made = xcalloc(n, sizeof *s->made);
		s->tensors = xcalloc(n, sizeof *s->tensors);
	}
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = place_made(&s->made[i], &s->memory_bytes, c, type, i);
	if (rc == 0 && bytes)
		*bytes = s->memory_bytes;
	if (rc == 0 && out)
		rc = map_made(s);
	if (rc == 0 && out)
		fill_made(s, n, type, seed);
	if (rc < 0 || !out) {
		model_file_close(s);
		s = NULL;
	}
	if (out)
		*out = s;
	return rc;
}

/* --- quantised in memory ------------------------------------------------------------------ */

/* A matrix, and what it becomes. */
struct quantising {
	const struct lm_tensor *from;
	struct lm_tensor *to;
};

static void quantise_rows(void *work, uint64_t first, uint64_t end)
{
	const struct quantising *q = work;
	uint64_t k = q->to->shape[1];
	uint64_t from_bytes = q->from->bytes / q->from->shape[0];
	uint64_t to_bytes = q->to->bytes / q->to->shape[0];
	float *row = xmalloc(k * sizeof *row);

	for (uint64_t i = first; i < end; i++) {
		lm_to_f32(row, (const char *)q->from->data + i * from_bytes,
			q->from->type, k);
		lm_from_f32((char *)q->to->data + i * to_bytes, row, q->to->type, k);
	}
	free(row);
}

/* Lets the system take back the pages of a file that were read once. */
static void forget_pages(const struct lm_tensor *t)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)t->data;
	uintptr_t end = (from + t->bytes) & ~(page - 1);

	from = (from + page - 1) & ~(page - 1);
	if (end > from)
		madvise((void *)from, end - from, MADV_DONTNEED);
}

/* Describes what a tensor becomes; returns whether it becomes something else. */
static bool describe_quantised(struct lm_tensor *to, const struct lm_tensor *from,
	enum lm_type type)
{
	uint64_t bytes;

	*to = *from;
	if (from->dims != 2 || from->shape[1] % lm_type_block(type) ||
		lm_type_bytes(type, from->count, &bytes) < 0 || bytes >= from->bytes)
		return false;
	to->type = type;
	snprintf(to->type_name, sizeof to->type_name, "%s", lm_type_name(type));
	to->bytes = bytes;
	return true;
}

int model_file_quantise(struct model_file *s, enum lm_type type)
{
	uint32_t n = lm_layout_count(&s->config);
	struct lm_tensor *made;
	uint64_t at = 0;

	if (s->memory)
		bug("a model that is in memory is quantised");
	made = s->made = xcalloc(n, sizeof *s->made);
	for (uint32_t i = 0; i < n; i++)
		if (describe_quantised(&made[i], s->tensors[i], type))
			s->memory_bytes += (made[i].bytes + MADE_ALIGN - 1) / MADE_ALIGN *
				MADE_ALIGN;
	if (s->memory_bytes && map_made(s) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		struct quantising q = { s->tensors[i], &made[i] };
		struct team_op op = { quantise_rows, &q, made[i].shape[0], 16, 0, 16 };

		if (made[i].type != q.from->type) {
			made[i].data = (char *)s->memory + at;
			at += (made[i].bytes + MADE_ALIGN - 1) / MADE_ALIGN * MADE_ALIGN;
			team_run(&op, 1);
			forget_pages(q.from);
		}
		s->tensors[i] = &made[i];
	}
	return 0;
}

uint64_t model_file_memory(const struct model_file *s)
{
	return s->memory_bytes;
}

bool model_file_owns(const struct model_file *s, const void *data)
{
	uintptr_t at = (uintptr_t)data, from = (uintptr_t)s->memory;

	return s->memory && at >= from && at - from < s->memory_bytes;
}

enum lm_format model_file_format(const struct model_file *s)
{
	return s->format;
}

const struct lm_config *model_file_config(const struct model_file *s)
{
	return &s->config;
}

const struct lm_tensor *model_file_tensor(const struct model_file *s, uint32_t i)
{
	return s->tensors[i];
}

const char *model_file_tokenizer(const struct model_file *s)
{
	return s->tokenizer;
}

const struct gguf *model_file_gguf(const struct model_file *s)
{
	return s->gguf;
}
