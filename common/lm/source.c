#include "common/lm/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/io.h"
#include "common/json.h"
#include "common/lm/gguf_llama.h"
#include "common/lm/llama2c.h"
#include "common/lm/safetensors.h"
#include "common/mem.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

struct lm_source {
	enum lm_format format;
	struct lm_config config;
	const struct lm_tensor **tensors; /* in the order of layout.h */
	char *tokenizer;
	struct gguf *gguf;
	struct safetensors *safetensors;
	struct llama2c *llama2c;
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

static const struct lm_tensor *find(const struct lm_source *s, const char *name)
{
	return s->gguf ? gguf_find_tensor(s->gguf, name) :
			 safetensors_find(s->safetensors, name);
}

/* Every tensor that the config asks for. */
static int gather(struct lm_source *s, const char *where)
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

/* Tables that old files bring and everybody computes, and the output of a tied model, which is the embedding again. */
static bool may_be_left(const struct lm_source *s, const char *name)
{
	return ends_with(name, ".rotary_emb.inv_freq") ||
		ends_with(name, ".attn_rot_embd") ||
		strcmp(name, "rope_freqs.weight") == 0 ||
		(s->config.tied && strcmp(name, "lm_head.weight") == 0);
}

/* A tensor that we would pass over makes another model. */
static int refuse_others(const struct lm_source *s, const char *where)
{
	uint64_t n = s->gguf ? gguf_tensors(s->gguf) : safetensors_count(s->safetensors);
	const struct lm_tensor **used;
	uint32_t count = lm_layout_count(&s->config);
	int rc = 0;

	if (n == count)
		return 0; /* each was found, so each is one of them */
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

/* The JSON of DIR/NAME, or NULL with the error; absent without one: *v is NULL and 0. */
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

static int open_directory(struct lm_source *s, const char *dir)
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

static int open_gguf(struct lm_source *s, const char *path)
{
	s->format = LM_FORMAT_GGUF;
	s->tokenizer = xstrdup(path);
	if (gguf_open(&s->gguf, path) < 0 || gguf_llama_config(&s->config, s->gguf) < 0 ||
		gguf_llama_rope(&s->config, s->gguf) < 0 || gather(s, path) < 0)
		return -1;
	return refuse_others(s, path);
}

static int open_llama2c(struct lm_source *s, const char *path)
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

/* A file of ours begins with GGUF, or is a llama2.c model, which has nothing to know it by. */
static int open_file(struct lm_source *s, const char *path)
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

int lm_source_open(struct lm_source **out, const char *path)
{
	struct lm_source *s = xcalloc(1, sizeof *s);
	struct stat st;
	int rc;

	if (stat(path, &st) < 0)
		rc = err_sys(0, "cannot open '%s'", path);
	else
		rc = S_ISDIR(st.st_mode) ? open_directory(s, path) : open_file(s, path);
	if (rc < 0) {
		lm_source_close(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

void lm_source_close(struct lm_source *s)
{
	if (!s)
		return;
	gguf_close(s->gguf);
	safetensors_close(s->safetensors);
	llama2c_close(s->llama2c);
	free(s->tensors);
	free(s->tokenizer);
	free(s);
}

enum lm_format lm_source_format(const struct lm_source *s)
{
	return s->format;
}

const struct lm_config *lm_source_config(const struct lm_source *s)
{
	return &s->config;
}

const struct lm_tensor *lm_source_tensor(const struct lm_source *s, uint32_t i)
{
	return s->tensors[i];
}

const char *lm_source_tokenizer(const struct lm_source *s)
{
	return s->tokenizer;
}

const struct gguf *lm_source_gguf(const struct lm_source *s)
{
	return s->gguf;
}
