/* shard.c - writes, maps and checks files of token ids. */
#include "common/lm/token/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/map.h"
#include "common/base/mem.h"

#define MAGIC       "RNPTOKS1"
#define FLUSH_BYTES ((size_t)1 << 20)
#define VOCAB_MAX   (1u << 20)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"shards are mapped as they are");

/* --- reading ------------------------------------------------------------------------------ */

static uint32_t u32_at(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static uint64_t u64_at(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

int lm_shard_read(struct lm_shard *s, const void *data, uint64_t bytes, const char *where)
{
	const unsigned char *p = data;

	*s = (struct lm_shard){ .data = data, .bytes = bytes };
	if (bytes < LM_SHARD_HEADER_BYTES || memcmp(p, MAGIC, 8) != 0)
		return err_set(EX_DATAERR, "'%s' is no token shard", where);
	s->id_bytes = u32_at(p + 8);
	s->vocab = u32_at(p + 12);
	s->count = u64_at(p + 16);
	s->before = u64_at(p + 24);
	memcpy(s->tokenizer, p + 32, 32);
	memcpy(s->digest, p + 64, 32);
	s->number = u32_at(p + 96);
	s->of = u32_at(p + 100);
	if ((s->id_bytes != 2 && s->id_bytes != 4) || s->vocab < 1 ||
		s->vocab > VOCAB_MAX || (s->id_bytes == 2 && s->vocab > 65536))
		return err_set(EX_DATAERR, "'%s': %u bytes an id for a vocabulary of %u",
			where, s->id_bytes, s->vocab);
	if (s->of < 1 || s->of > LM_SHARDS_MAX || s->number >= s->of ||
		s->before > INT64_MAX / 8)
		return err_set(EX_DATAERR, "'%s': shard %u of %u behind %llu ids", where,
			s->number, s->of, (unsigned long long)s->before);
	for (unsigned i = 104; i < LM_SHARD_HEADER_BYTES; i++)
		if (p[i])
			return err_set(EX_DATAERR, "'%s' is of a later version", where);
	if (s->count > (bytes - LM_SHARD_HEADER_BYTES) / s->id_bytes ||
		s->count * s->id_bytes != bytes - LM_SHARD_HEADER_BYTES)
		return err_set(EX_DATAERR, "'%s' has %llu bytes, which is not %llu ids",
			where, (unsigned long long)bytes, (unsigned long long)s->count);
	return 0;
}

static int open_one(struct lm_shards *set, size_t *cap, const char *path)
{
	struct lm_map map;

	if (lm_map_open(&map, path) < 0)
		return -1;
	set->shards = xgrow(set->shards, cap, set->n + 1, sizeof *set->shards);
	if (lm_shard_read(&set->shards[set->n], map.data, map.bytes, path) < 0) {
		lm_map_close(&map);
		return -1;
	}
	set->shards[set->n++].mapped = true;
	return 0;
}

static bool is_shard_name(const char *name)
{
	size_t n = strlen(name), suffix = strlen(LM_SHARD_SUFFIX);

	return n > suffix && name[0] != '.' &&
		strcmp(name + n - suffix, LM_SHARD_SUFFIX) == 0;
}

static int shard_filter(const struct dirent *e)
{
	return is_shard_name(e->d_name);
}

static int open_directory(struct lm_shards *set, size_t *cap, const char *path)
{
	struct dirent **names = NULL;
	int n = scandir(path, &names, shard_filter, alphasort), rc = 0;

	if (n < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (n == 0)
		rc = err_set(EX_NOINPUT, "'%s' has no token shards", path);
	for (int i = 0; i < n; i++) {
		struct buf file = BUF_INIT;

		buf_addf(&file, "%s/%s", path, names[i]->d_name);
		if (rc == 0)
			rc = open_one(set, cap, file.data);
		buf_release(&file);
		free(names[i]);
	}
	free(names);
	return rc;
}

/* Checks that the shards of a set follow each other without gaps and belong to one tokenizer. */
static int check_set(struct lm_shards *set, const char *path, bool whole)
{
	set->vocab = set->shards[0].vocab;
	memcpy(set->tokenizer, set->shards[0].tokenizer, 32);
	for (uint32_t i = 0; i < set->n; i++) {
		const struct lm_shard *s = &set->shards[i];

		if (whole &&
			(s->number != i || s->of != set->n || s->before != set->count))
			return err_set(EX_DATAERR,
				"'%s': shard %u of %u is not the one that belongs there: the set is not whole",
				path, s->number, s->of);
		if (s->vocab != set->vocab ||
			memcmp(s->tokenizer, set->tokenizer, 32) != 0)
			return err_set(EX_DATAERR,
				"'%s': its shards are of several tokenizers", path);
		set->count += s->count;
	}
	return 0;
}

int lm_shards_open(struct lm_shards *set, const char *path)
{
	struct stat st;
	size_t cap = 0;
	bool whole;
	int rc;

	*set = (struct lm_shards){ 0 };
	if (stat(path, &st) < 0)
		return err_sys(0, "cannot open '%s'", path);
	whole = S_ISDIR(st.st_mode);
	rc = whole ? open_directory(set, &cap, path) : open_one(set, &cap, path);
	if (rc == 0)
		rc = check_set(set, path, whole);
	if (rc < 0)
		lm_shards_close(set);
	return rc;
}

int lm_shards_suit(const struct lm_shards *set, const char *path,
	const unsigned char tokenizer[32], const char *name)
{
	static const unsigned char unknown[32];

	if (memcmp(set->tokenizer, unknown, sizeof unknown) == 0 ||
		memcmp(tokenizer, unknown, sizeof unknown) == 0 ||
		memcmp(set->tokenizer, tokenizer, sizeof set->tokenizer) == 0)
		return 0;
	return err_set(EX_DATAERR,
		"%s: the tokens are not those of the tokenizer of '%s'", path, name);
}

void lm_shards_close(struct lm_shards *set)
{
	for (uint32_t i = 0; i < set->n; i++) {
		struct lm_map map = { set->shards[i].data, set->shards[i].bytes };

		lm_map_close(&map);
	}
	free(set->shards);
	*set = (struct lm_shards){ 0 };
}

/* Converts n ids of one shard to u32; returns the largest. */
static uint32_t copy(const struct lm_shard *s, uint64_t at, uint64_t n, uint32_t *to)
{
	const unsigned char *from = s->data + LM_SHARD_HEADER_BYTES + at * s->id_bytes;
	uint32_t largest = 0;

	if (s->id_bytes == 4)
		memcpy(to, from, n * 4);
	else
		for (uint64_t i = 0; i < n; i++) {
			uint16_t id;

			memcpy(&id, from + 2 * i, 2);
			to[i] = id;
		}
	for (uint64_t i = 0; i < n; i++)
		largest = to[i] > largest ? to[i] : largest;
	return largest;
}

static int fail_id(const struct lm_shard *s)
{
	return err_set(EX_DATAERR,
		"token shard %u has an id that is not below its vocabulary of %u",
		s->number, s->vocab);
}

int lm_shards_get(const struct lm_shards *set, uint64_t at, uint64_t n, uint32_t *to)
{
	if (at > set->count || n > set->count - at)
		bug("ids %llu to %llu of %llu", (unsigned long long)at,
			(unsigned long long)(at + n), (unsigned long long)set->count);
	for (uint32_t i = 0; i < set->n && n; i++) {
		const struct lm_shard *s = &set->shards[i];
		uint64_t take;

		if (at >= s->count) {
			at -= s->count;
			continue;
		}
		take = n < s->count - at ? n : s->count - at;
		if (copy(s, at, take, to) >= s->vocab)
			return fail_id(s);
		to += take;
		n -= take;
		at = 0;
	}
	return 0;
}

/* --- the whole of it ------------------------------------------------------------------------ */

#define PIECE_IDS ((uint64_t)1 << 18)

enum verdict { SOUND, BEYOND, OTHER };

struct check {
	lm_shards_tick_fn tick;
	void *ctx;
	uint64_t done; /* bytes done in all shards */
};

/* One thread at a time reports progress; mapped pages are released, or checking the data would
 * set the peak memory of a run. */
static void checked(struct check *c, const struct lm_shard *s, uint64_t from,
	uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = from / page * page;

	if (s->mapped)
		madvise((void *)(s->data + first), from - first + bytes, MADV_DONTNEED);
#pragma omp critical(shards_check)
	{
		c->done += bytes;
		if (c->tick)
			c->tick(c->ctx, c->done);
	}
}

static enum verdict check_one(const struct lm_shard *s, struct check *c)
{
	uint32_t *ids = xmalloc(PIECE_IDS * sizeof *ids);
	enum verdict v = SOUND;
	unsigned char digest[32];
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, sizeof digest);
	for (uint64_t at = 0; at < s->count && v == SOUND; at += PIECE_IDS) {
		uint64_t n = s->count - at < PIECE_IDS ? s->count - at : PIECE_IDS;
		uint64_t from = LM_SHARD_HEADER_BYTES + at * s->id_bytes;

		crypto_generichash_update(&h, s->data + from, n * s->id_bytes);
		if (copy(s, at, n, ids) >= s->vocab)
			v = BEYOND;
		checked(c, s, from, n * s->id_bytes);
	}
	crypto_generichash_final(&h, digest, sizeof digest);
	free(ids);
	if (v == SOUND && memcmp(digest, s->digest, sizeof digest) != 0)
		v = OTHER;
	return v;
}

uint64_t lm_shards_bytes(const struct lm_shards *set)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < set->n; i++)
		bytes += set->shards[i].count * set->shards[i].id_bytes;
	return bytes;
}

int lm_shards_check(const struct lm_shards *set, lm_shards_tick_fn tick, void *ctx)
{
	enum verdict *verdicts = xcalloc(set->n, sizeof *verdicts);
	struct check c = { .tick = tick, .ctx = ctx };
	int rc = 0;

#pragma omp parallel for schedule(dynamic)
	for (uint32_t i = 0; i < set->n; i++)
		verdicts[i] = check_one(&set->shards[i], &c);
	for (uint32_t i = 0; i < set->n && rc == 0; i++)
		if (verdicts[i] == BEYOND)
			rc = fail_id(&set->shards[i]);
		else if (verdicts[i] == OTHER)
			rc = err_set(EX_DATAERR,
				"token shard %u: its digest is not that of its ids",
				set->shards[i].number);
	free(verdicts);
	return rc;
}

/* --- writing ------------------------------------------------------------------------------ */

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

static int has_shards(const char *dir)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, shard_filter, alphasort);

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
	if (vocab < 1 || vocab > VOCAB_MAX || w->n)
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
	unsigned char h[LM_SHARD_HEADER_BYTES] = MAGIC;
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
