/* shard.c - what is written is read, what is malformed is refused. */
#include "common/lm/token/shard.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-shard-XXXXXX";

static const char *path_of(const char *name)
{
	static struct buf path = BUF_INIT;

	buf_reset(&path);
	buf_addf(&path, "%s/%s", dir, name);
	return path.data;
}

static void write_set(const char *name, uint32_t vocab, uint32_t n)
{
	struct lm_shard_writer *w;
	uint64_t count;
	uint32_t shards;

	CHECK(lm_shard_begin(&w, path_of(name)) == 0);
	lm_shard_vocab(w, vocab, NULL);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = i % vocab;

		CHECK(lm_shard_add(w, &id, 1) == 0);
	}
	CHECK(lm_shard_end(w, &count, &shards) == 0);
	CHECK_I64(n, (int64_t)count);
	CHECK_I64(1, shards);
}

static void check_round(const char *name, uint32_t vocab, uint32_t n)
{
	struct lm_shards set;
	uint32_t *ids = xmalloc((n + 1) * sizeof *ids);

	write_set(name, vocab, n);
	CHECK(lm_shards_open(&set, path_of(name)) == 0);
	CHECK_I64(vocab, set.vocab);
	CHECK_I64(n, (int64_t)set.count);
	CHECK(lm_shards_check(&set, NULL, NULL) == 0);
	CHECK(lm_shards_get(&set, 0, n, ids) == 0);
	for (uint32_t i = 0; i < n; i++)
		CHECK(ids[i] == i % vocab);
	if (n > 10) {
		CHECK(lm_shards_get(&set, 7, 3, ids) == 0);
		CHECK(ids[0] == 7 % vocab && ids[2] == 9 % vocab);
	}
	lm_shards_close(&set);
	free(ids);
}

/* Two shards of a set, as a long text would give them. */
static void check_set(void)
{
	struct buf one = BUF_INIT;
	struct lm_shards set;
	uint32_t ids[8], two = 2, first = 1;
	uint64_t before = 4;

	write_set("set", 300, 4);
	CHECK(io_read(&one, path_of("set/00000.tokens"), 1 << 20) == 0);
	memcpy(one.data + 100, &two, 4);
	CHECK(io_replace(path_of("set/00000.tokens"), one.data, one.len, 0644) == 0);
	CHECK_FAILS(EX_DATAERR,
		lm_shards_open(&set, path_of("set"))); /* one is missing */
	memcpy(one.data + 96, &first, 4);
	CHECK(io_replace(path_of("set/00001.tokens"), one.data, one.len, 0644) == 0);
	CHECK_FAILS(EX_DATAERR, lm_shards_open(&set, path_of("set"))); /* a gap */
	memcpy(one.data + 24, &before, 8);
	CHECK(io_replace(path_of("set/00001.tokens"), one.data, one.len, 0644) == 0);
	CHECK(lm_shards_open(&set, path_of("set")) == 0);
	CHECK_I64(8, (int64_t)set.count);
	CHECK(lm_shards_get(&set, 2, 4, ids) == 0);
	CHECK(ids[0] == 2 && ids[1] == 3 && ids[2] == 0 && ids[3] == 1);
	lm_shards_close(&set);
	/* a single one of them can be read by itself */
	CHECK(lm_shards_open(&set, path_of("set/00001.tokens")) == 0);
	CHECK_I64(4, (int64_t)set.count);
	lm_shards_close(&set);
	buf_release(&one);
}

static void check_refused(void)
{
	struct buf good = BUF_INIT, bad = BUF_INIT;
	struct lm_shard_writer *w;
	struct lm_shard s;
	struct lm_shards set;
	uint32_t id = 300, ids[4];

	write_set("good", 300, 4);
	CHECK_FAILS(EX_CANTCREAT, lm_shard_begin(&w, path_of("good")));
	CHECK(lm_shard_begin(&w, path_of("other")) == 0);
	lm_shard_vocab(w, 300, NULL);
	CHECK_FAILS(EX_DATAERR, lm_shard_add(w, &id, 1));
	lm_shard_abandon(w);
	CHECK_FAILS(EX_NOINPUT, lm_shards_open(&set, path_of("other")));
	CHECK_FAILS(EX_NOINPUT, lm_shards_open(&set, path_of("absent")));

	CHECK(io_read(&good, path_of("good/00000.tokens"), 1 << 20) == 0);
	CHECK(lm_shard_read(&s, good.data, good.len, "s") == 0);
	for (size_t n = 0; n < good.len; n++)
		CHECK_FAILS(EX_DATAERR, lm_shard_read(&s, good.data, n, "s"));
	for (size_t i = 0; i < LM_SHARD_HEADER_BYTES; i++) {
		buf_reset(&bad);
		buf_add(&bad, good.data, good.len);
		bad.data[i] ^= (char)0x80;
		/* digests are not looked at before lm_shards_check, the place of a lone shard not
		 * at all */
		if (lm_shard_read(&s, bad.data, bad.len, "s") == 0)
			CHECK((i >= 12 && i < 14) || (i >= 24 && i < 96) ||
				(i >= 100 && i < 103));
	}
	/* an id beyond the vocabulary */
	memcpy(good.data + LM_SHARD_HEADER_BYTES, &id, 2);
	CHECK(io_replace(path_of("bad.tokens"), good.data, good.len, 0644) == 0);
	CHECK(lm_shards_open(&set, path_of("bad.tokens")) == 0);
	CHECK_FAILS(EX_DATAERR, lm_shards_get(&set, 0, 4, ids));
	CHECK(lm_shards_get(&set, 1, 3, ids) == 0);
	CHECK_FAILS(EX_DATAERR, lm_shards_check(&set, NULL, NULL));
	lm_shards_close(&set);
	/* ids that are others than were written */
	id = 5;
	memcpy(good.data + LM_SHARD_HEADER_BYTES, &id, 2);
	CHECK(io_replace(path_of("bad.tokens"), good.data, good.len, 0644) == 0);
	CHECK(lm_shards_open(&set, path_of("bad.tokens")) == 0);
	CHECK_FAILS(EX_DATAERR, lm_shards_check(&set, NULL, NULL));
	lm_shards_close(&set);
	buf_release(&good);
	buf_release(&bad);
}

int main(void)
{
	char command[64];

	CHECK(mkdtemp(dir) != NULL);
	check_round("none", 256, 0);
	check_round("one", 1, 1);
	check_round("two", 300, 1000);
	check_round("four", 70000, 100000);
	check_set();
	check_refused();
	snprintf(command, sizeof command, "rm -r %s", dir);
	CHECK(system(command) == 0);
	TEST_END();
}
