/* shard.c - maps and checks files of token ids. */
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

#define VOCAB_MAX LM_SHARD_VOCAB_MAX
#define PIECE_IDS ((uint64_t)1 << 18) /* read at a time */

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

	*s = (struct lm_shard){ .data = data,
		.bytes = bytes,
		.header = LM_SHARD_HEADER_BYTES,
		.is_ours = true };
	if (bytes < LM_SHARD_HEADER_BYTES || memcmp(p, LM_SHARD_MAGIC, 8) != 0)
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

/* Converts n ids of one shard to u32; returns the largest. */
static uint32_t copy(const struct lm_shard *s, uint64_t at, uint64_t n, uint32_t *to)
{
	const unsigned char *from = s->data + s->header + at * s->id_bytes;
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

/* Releases mapped pages that were read, or reading the data would set the peak memory of a run. */
static void leave(const struct lm_shard *s, uint64_t from, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = from / page * page;

	if (s->mapped)
		madvise((void *)(s->data + first), from - first + bytes, MADV_DONTNEED);
}

/* --- shards of others ----------------------------------------------------------------------- */

#define LLMC_HEADER_BYTES 1024
#define LLMC_SUFFIX       ".bin"

static const struct {
	uint32_t magic, version, id_bytes;
} llmc[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };

/* Fills in s for llm.c's header: 1, 0 if it is none, or -1 with err_set(EX_DATAERR). */
static int read_llmc(struct lm_shard *s, const struct lm_map *map, const char *where)
{
	for (size_t i = 0; i < sizeof llmc / sizeof *llmc; i++) {
		if (map->bytes < LLMC_HEADER_BYTES || u32_at(map->data) != llmc[i].magic)
			continue;
		if (u32_at(map->data + 4) != llmc[i].version)
			return err_set(EX_DATAERR,
				"'%s' is a shard of llm.c in version %u: %u is known",
				where, u32_at(map->data + 4), llmc[i].version);
		s->header = LLMC_HEADER_BYTES;
		s->id_bytes = llmc[i].id_bytes;
		s->count = u32_at(map->data + 8);
		if (s->count * s->id_bytes != map->bytes - LLMC_HEADER_BYTES)
			return err_set(EX_DATAERR,
				"'%s' has %llu bytes, which is not %llu ids", where,
				(unsigned long long)map->bytes,
				(unsigned long long)s->count);
		return 1;
	}
	return 0;
}

static int read_raw(struct lm_shard *s, const struct lm_map *map, uint32_t id_bytes,
	const char *where)
{
	if (map->bytes % id_bytes)
		return err_set(EX_DATAERR, "'%s' has %llu bytes, which are no ids of %u",
			where, (unsigned long long)map->bytes, id_bytes);
	s->id_bytes = id_bytes;
	s->count = map->bytes / id_bytes;
	return 1;
}

/* Reads every id for what their header does not tell: digest and vocabulary. */
static int measure(struct lm_shard *s, const char *where)
{
	uint32_t *ids = xmalloc(PIECE_IDS * sizeof *ids), largest = 0;
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, sizeof s->digest);
	for (uint64_t at = 0; at < s->count; at += PIECE_IDS) {
		uint64_t n = s->count - at < PIECE_IDS ? s->count - at : PIECE_IDS;
		uint32_t top = copy(s, at, n, ids);

		largest = top > largest ? top : largest;
		crypto_generichash_update(&h, s->data + s->header + at * s->id_bytes,
			n * s->id_bytes);
		leave(s, s->header + at * s->id_bytes, n * s->id_bytes);
	}
	crypto_generichash_final(&h, s->digest, sizeof s->digest);
	free(ids);
	if (!s->count)
		return err_set(EX_DATAERR, "'%s' has no ids", where);
	if (largest >= VOCAB_MAX)
		return err_set(EX_DATAERR,
			"'%s' has the id %u: no vocabulary has more than %u (other bytes an id?)",
			where, largest, VOCAB_MAX);
	s->vocab = largest + 1;
	return 0;
}

bool lm_shard_is_one(const char *path)
{
	unsigned char head[8] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head;

	if (fd >= 0)
		close(fd);
	return is &&
		(memcmp(head, LM_SHARD_MAGIC, 8) == 0 || u32_at(head) == llmc[0].magic ||
			u32_at(head) == llmc[1].magic);
}

/* 1 if the file is a shard that others made, 0 if not, or -1 with err_set. */
static int read_of_others(struct lm_shards *set, const struct lm_map *map,
	uint32_t raw_bytes, const char *where)
{
	struct lm_shard *s = &set->shards[set->n];
	int is;

	*s = (struct lm_shard){ .data = map->data,
		.bytes = map->bytes,
		.mapped = true,
		.number = set->n,
		.before = set->n ? s[-1].before + s[-1].count : 0 };
	is = raw_bytes ? read_raw(s, map, raw_bytes, where) : read_llmc(s, map, where);
	if (is > 0 && measure(s, where) < 0)
		return -1;
	return is;
}

/* Of a set that others made no shard knows of the rest. */
static int join_set(struct lm_shards *set, const char *path)
{
	uint32_t vocab = 0, of_others = 0;

	for (uint32_t i = 0; i < set->n; i++) {
		of_others += !set->shards[i].is_ours;
		if (set->shards[i].vocab > vocab)
			vocab = set->shards[i].vocab;
	}
	if (of_others && of_others < set->n)
		return err_set(EX_DATAERR, "'%s' has shards of several kinds", path);
	for (uint32_t i = 0; of_others && i < set->n; i++) {
		set->shards[i].vocab = vocab;
		set->shards[i].of = set->n;
	}
	return 0;
}

/* --- opening -------------------------------------------------------------------------------- */

static int open_one(struct lm_shards *set, size_t *cap, uint32_t raw_bytes,
	const char *path)
{
	struct lm_map map;
	int is;

	if (lm_map_open(&map, path) < 0)
		return -1;
	set->shards = xgrow(set->shards, cap, set->n + 1, sizeof *set->shards);
	is = read_of_others(set, &map, raw_bytes, path);
	if (is == 0)
		is = lm_shard_read(&set->shards[set->n], map.data, map.bytes, path);
	if (is < 0) {
		lm_map_close(&map);
		return -1;
	}
	set->shards[set->n++].mapped = true;
	return 0;
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && name[0] != '.' && strcmp(name + n - m, suffix) == 0;
}

static int shard_filter(const struct dirent *e)
{
	return ends_with(e->d_name, LM_SHARD_SUFFIX);
}

static int llmc_filter(const struct dirent *e)
{
	return ends_with(e->d_name, LLMC_SUFFIX);
}

static int open_directory(struct lm_shards *set, size_t *cap, uint32_t raw_bytes,
	const char *path)
{
	struct dirent **names = NULL;
	int n = raw_bytes ? 0 : scandir(path, &names, shard_filter, alphasort), rc = 0;

	if (n == 0) {
		free(names);
		n = scandir(path, &names, llmc_filter, alphasort);
	}
	if (n < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (n == 0)
		rc = err_set(EX_NOINPUT, "'%s' has no token shards", path);
	for (int i = 0; i < n; i++) {
		struct buf file = BUF_INIT;

		buf_addf(&file, "%s/%s", path, names[i]->d_name);
		if (rc == 0)
			rc = open_one(set, cap, raw_bytes, file.data);
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
	return lm_shards_open_as(set, path, NULL);
}

int lm_shards_open_as(struct lm_shards *set, const char *path, const char *ids)
{
	uint32_t raw_bytes = !ids ? 0 : strcmp(ids, "u16") == 0 ? 2 : 4;
	struct stat st;
	size_t cap = 0;
	bool whole;
	int rc;

	*set = (struct lm_shards){ 0 };
	if (stat(path, &st) < 0)
		return err_sys(0, "cannot open '%s'", path);
	whole = S_ISDIR(st.st_mode);
	rc = whole ? open_directory(set, &cap, raw_bytes, path) :
		     open_one(set, &cap, raw_bytes, path);
	if (rc == 0)
		rc = join_set(set, path);
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

enum verdict { SOUND, BEYOND, OTHER };

struct check {
	lm_shards_tick_fn tick;
	void *ctx;
	uint64_t done; /* bytes done in all shards */
};

/* One thread at a time reports progress. */
static void checked(struct check *c, const struct lm_shard *s, uint64_t from,
	uint64_t bytes)
{
	leave(s, from, bytes);
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
		uint64_t from = s->header + at * s->id_bytes;

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
