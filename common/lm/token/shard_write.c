/* shard_write.c - writes sets of token shards. */
#include "common/lm/token/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define FLUSH_BYTES ((size_t)1 << 20)

struct part {
	struct io_part file;
	uint64_t count, before;
	unsigned char digest[32];
};

struct lm_shard_writer {
	char *dir;
	uint32_t vocab, id_bytes;
	unsigned char tokenizer[32];
	struct part *parts;
	size_t n, cap;
	struct io_part *others; /* other files of the set */
	size_t n_others, cap_others;
	bool made; /* we created the directory */
	bool open; /* the last part is being written */
	struct buf pending;
	crypto_generichash_state state;
	uint64_t count; /* ids in all shards */
};

static int is_shard(const struct dirent *e)
{
	size_t n = strlen(e->d_name), m = strlen(LM_SHARD_SUFFIX);

	return n > m && strcmp(e->d_name + n - m, LM_SHARD_SUFFIX) == 0;
}

static int has_shards(const char *dir)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, is_shard, alphasort);

	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return n;
}

int lm_shard_begin(struct lm_shard_writer **out, const char *dir)
{
	struct lm_shard_writer *w;
	bool made = access(dir, F_OK) < 0;
	int there;

	*out = NULL;
	if (io_make_dirs(dir, 0777) < 0)
		return -1;
	there = has_shards(dir);
	if (there < 0)
		return err_sys(0, "cannot read '%s'", dir);
	if (there)
		return err_set(EX_CANTCREAT,
			"'%s' holds token shards already, and they are never overwritten",
			dir);
	if (access(dir, W_OK | X_OK) < 0)
		return err_sys(errno == EACCES || errno == EROFS ? EX_NOPERM : 0,
			"cannot write into '%s'", dir);
	w = xcalloc(1, sizeof *w);
	w->dir = xstrdup(dir);
	w->made = made;
	*out = w;
	return 0;
}

void lm_shard_vocab(struct lm_shard_writer *w, uint32_t vocab,
	const unsigned char tokenizer[32])
{
	if (vocab < 1 || vocab > LM_SHARD_VOCAB_MAX || w->n)
		bug("vocabulary of %u", vocab);
	w->vocab = vocab;
	w->id_bytes = vocab <= 65536 ? 2 : 4;
	if (tokenizer)
		memcpy(w->tokenizer, tokenizer, 32);
}

static struct part *last_part(struct lm_shard_writer *w)
{
	return &w->parts[w->n - 1];
}

static int flush(struct lm_shard_writer *w)
{
	crypto_generichash_update(&w->state, (const unsigned char *)buf_text(&w->pending),
		w->pending.len);
	if (io_part_write(&last_part(w)->file, buf_text(&w->pending), w->pending.len) < 0)
		return -1;
	buf_reset(&w->pending);
	return 0;
}

static int part_open(struct lm_shard_writer *w)
{
	static const char header[LM_SHARD_HEADER_BYTES];
	struct part part = { .before = w->count };
	struct buf path = BUF_INIT;
	int rc;

	buf_addf(&path, "%s/%05zu" LM_SHARD_SUFFIX, w->dir, w->n);
	rc = io_part_open(&part.file, path.data, 0644);
	buf_release(&path);
	if (rc < 0)
		return -1;
	w->parts = xgrow(w->parts, &w->cap, w->n + 1, sizeof *w->parts);
	w->parts[w->n++] = part;
	w->open = true;
	crypto_generichash_init(&w->state, NULL, 0, 32);
	return io_part_write(&last_part(w)->file, header, sizeof header);
}

static int part_close(struct lm_shard_writer *w)
{
	w->open = false;
	if (flush(w) < 0)
		return -1;
	crypto_generichash_final(&w->state, last_part(w)->digest, 32);
	return io_part_flush(&last_part(w)->file);
}

int lm_shard_add(struct lm_shard_writer *w, const uint32_t *ids, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (ids[i] >= w->vocab)
			return err_set(EX_DATAERR,
				"id %u is not below the vocabulary of %u", ids[i],
				w->vocab);
		if (!w->open && part_open(w) < 0)
			return -1;
		if (w->pending.cap - w->pending.len <= 4)
			buf_reserve(&w->pending, FLUSH_BYTES);
		memcpy(w->pending.data + w->pending.len, &ids[i],
			w->id_bytes); /* little-endian */
		w->pending.len += w->id_bytes;
		w->count++;
		if (w->pending.len >= FLUSH_BYTES && flush(w) < 0)
			return -1;
		if (++last_part(w)->count == LM_SHARD_IDS && part_close(w) < 0)
			return -1;
	}
	return 0;
}

int lm_shard_beside(struct lm_shard_writer *w, const char *name, const void *data,
	size_t len)
{
	struct io_part file;
	struct buf path = BUF_INIT;
	int rc;

	buf_addf(&path, "%s/%s", w->dir, name);
	rc = io_part_open(&file, path.data, 0644);
	buf_release(&path);
	if (rc < 0)
		return -1;
	w->others = xgrow(w->others, &w->cap_others, w->n_others + 1, sizeof *w->others);
	w->others[w->n_others++] = file;
	if (io_part_write(&w->others[w->n_others - 1], data, len) < 0)
		return -1;
	return io_part_flush(&w->others[w->n_others - 1]);
}

/* Writes the header, once the number of shards is known. */
static int part_finish(const struct lm_shard_writer *w, const struct part *p,
	uint32_t number)
{
	unsigned char h[LM_SHARD_HEADER_BYTES] = LM_SHARD_MAGIC;
	uint32_t of = (uint32_t)w->n;
	int fd = open(p->file.temporary, O_WRONLY | O_CLOEXEC), rc = -1;

	memcpy(h + 8, &w->id_bytes, 4);
	memcpy(h + 12, &w->vocab, 4);
	memcpy(h + 16, &p->count, 8);
	memcpy(h + 24, &p->before, 8);
	memcpy(h + 32, w->tokenizer, 32);
	memcpy(h + 64, p->digest, 32);
	memcpy(h + 96, &number, 4);
	memcpy(h + 100, &of, 4);
	if (fd >= 0 && io_write_all_at(fd, h, sizeof h, 0) == 0 && fsync(fd) == 0)
		rc = 0;
	if (rc < 0)
		err_sys(EX_IOERR, "cannot write '%s'", p->file.path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Everything is on disk now: the shards are renamed last, because their names mean that the set
 * is complete. */
static int give_names(struct lm_shard_writer *w)
{
	int rc = 0;

	for (size_t i = 0; i < w->n_others && rc == 0; i++)
		rc = io_part_close(&w->others[i]);
	for (size_t i = 0; i < w->n && rc == 0; i++)
		rc = io_part_close(&w->parts[i].file);
	return rc;
}

int lm_shard_end(struct lm_shard_writer *w, uint64_t *count, uint32_t *shards)
{
	int rc = 0;

	/* a text without tokens becomes a set of one empty shard */
	if (!w->n)
		rc = part_open(w);
	if (rc == 0 && w->open)
		rc = part_close(w);
	for (size_t i = 0; i < w->n && rc == 0; i++)
		rc = part_finish(w, &w->parts[i], (uint32_t)i);
	if (rc == 0)
		rc = give_names(w);
	*count = w->count;
	if (shards)
		*shards = (uint32_t)w->n;
	lm_shard_abandon(w);
	return rc;
}

void lm_shard_abandon(struct lm_shard_writer *w)
{
	if (!w)
		return;
	/* files that were renamed are no temporary parts any more */
	for (size_t i = 0; i < w->n_others; i++)
		io_part_drop(&w->others[i]);
	for (size_t i = 0; i < w->n; i++)
		io_part_drop(&w->parts[i].file);
	if (w->made)
		rmdir(w->dir); /* only if it is empty */
	free(w->others);
	free(w->parts);
	buf_release(&w->pending);
	free(w->dir);
	free(w);
}
