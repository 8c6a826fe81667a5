/* cache.c - a text of lines: files in the order of the manifest, and blobs. */
#include "cmd/rnp-register/pack/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define HEAD            "rnp-pack 1\n"
#define CACHE_BYTES_MAX ((size_t)256 << 20)
#define RACY_NS         INT64_C(2000000000)
#define HASH_CHARS      (2 * SHA256_BYTES)

/* --- reading ---------------------------------------------------------------------------------- */

/* The rest of a text. */
struct scan {
	char *at, *end;
};

/* Reads a decimal number and the blank behind it. */
static bool take_number(struct scan *s, int64_t *out)
{
	uint64_t v = 0;
	char *from = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && s->at - from < 20)
		v = v * 10 + (uint64_t)(*s->at++ - '0');
	*out = (int64_t)v;
	return s->at > from && s->at < s->end && *s->at++ == ' ';
}

/* Reads a hash and the byte behind it. */
static bool take_hash(struct scan *s, unsigned char out[SHA256_BYTES], char behind)
{
	char hex[HASH_CHARS + 1];

	if (s->end - s->at <= HASH_CHARS)
		return false;
	memcpy(hex, s->at, HASH_CHARS);
	hex[HASH_CHARS] = '\0';
	s->at += HASH_CHARS;
	return manifest_hash_read(out, hex) == 0 && *s->at++ == behind;
}

static bool take_file(struct pack_cache *c, struct scan *s)
{
	struct cache_file f;
	int64_t device, inode;
	char *eol;

	if (!take_number(s, &device) || !take_number(s, &inode) ||
		!take_number(s, &f.stat.bytes) || !take_number(s, &f.stat.modified_ns) ||
		!take_number(s, &f.stat.changed_ns) || !take_hash(s, f.sha256, ' '))
		return false;
	eol = memchr(s->at, '\n', (size_t)(s->end - s->at));
	if (!eol)
		return false;
	*eol = '\0';
	f.stat.device = (uint64_t)device;
	f.stat.inode = (uint64_t)inode;
	f.path = s->at;
	s->at = eol + 1;
	if (c->nfiles && manifest_order(c->files[c->nfiles - 1].path, f.path) >= 0)
		return false;
	c->files = xgrow(c->files, &c->files_cap, c->nfiles + 1, sizeof *c->files);
	c->files[c->nfiles++] = f;
	return true;
}

static bool take_blob(struct pack_cache *c, struct scan *s)
{
	struct cache_blob b;

	if (!take_hash(s, b.key, ' ') || !take_hash(s, b.sha256, '\n') ||
		(c->nblobs &&
			memcmp(c->blobs[c->nblobs - 1].key, b.key, SHA256_BYTES) >= 0))
		return false;
	cache_blob_add(c, b.key, b.sha256);
	return true;
}

static void forget(struct pack_cache *c)
{
	buf_reset(&c->text);
	c->nfiles = c->nblobs = c->nsorted = 0;
}

int cache_parse(struct pack_cache *c)
{
	struct scan s = { c->text.data, c->text.data + c->text.len };
	bool good = c->text.len >= strlen(HEAD) &&
		memcmp(c->text.data, HEAD, strlen(HEAD)) == 0;

	if (good)
		s.at += strlen(HEAD);
	while (good && s.at < s.end) {
		char what = *s.at++;

		good = s.at < s.end && *s.at++ == ' ' &&
			(what == 'f' ? take_file(c, &s) :
				       what == 'b' && take_blob(c, &s));
	}
	if (!good) {
		forget(c);
		return -1;
	}
	c->nsorted = c->nblobs;
	return 0;
}

static int find_place(struct pack_cache *c, const char *dir)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *real = realpath(dir, NULL);
	unsigned char hash[SHA256_BYTES];
	struct buf path = BUF_INIT;

	if (cache && *cache == '/')
		buf_addf(&path, "%s/rnp", cache);
	else if (home && *home == '/')
		buf_addf(&path, "%s/.cache/rnp", home);
	if (!path.len || !real || io_make_default_dirs(path.data, 0700) < 0) {
		free(real);
		buf_release(&path);
		return -1;
	}
	sha256(hash, real, strlen(real));
	buf_adds(&path, "/pack-");
	buf_add_hex(&path, hash, 12);
	c->path = buf_take(&path);
	free(real);
	return 0;
}

void cache_open(struct pack_cache *c, const char *dir)
{
	memset(c, 0, sizeof *c);
	if (find_place(c, dir) == 0 && io_read(&c->text, c->path, CACHE_BYTES_MAX) == 0 &&
		c->text.len)
		(void)cache_parse(c);
	err_clear();
}

void cache_release(struct pack_cache *c)
{
	free(c->path);
	free(c->files);
	free(c->blobs);
	buf_release(&c->text);
	memset(c, 0, sizeof *c);
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool same_stat(const struct walk_stat *a, const struct walk_stat *b)
{
	return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
		a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

void cache_recall(const struct pack_cache *c, struct walk *w, bool *known)
{
	size_t k = 0;

	for (size_t i = 0; i < w->manifest.nentries; i++) {
		struct manifest_entry *e = &w->manifest.entries[i];

		while (k < c->nfiles && manifest_order(c->files[k].path, e->path) < 0)
			k++;
		if (e->type != MANIFEST_FILE || k == c->nfiles ||
			strcmp(c->files[k].path, e->path) != 0 ||
			!same_stat(&c->files[k].stat, &w->stats[i]))
			continue;
		memcpy(e->sha256, c->files[k].sha256, SHA256_BYTES);
		known[i] = true;
	}
}

static int by_key(const void *a, const void *b)
{
	return memcmp(((const struct cache_blob *)a)->key,
		((const struct cache_blob *)b)->key, SHA256_BYTES);
}

bool cache_blob_find(const struct pack_cache *c, const unsigned char key[SHA256_BYTES],
	unsigned char out[SHA256_BYTES])
{
	struct cache_blob wanted, *b;

	if (!c->nsorted)
		return false;
	memcpy(wanted.key, key, SHA256_BYTES);
	b = bsearch(&wanted, c->blobs, c->nsorted, sizeof *b, by_key);
	if (b)
		memcpy(out, b->sha256, SHA256_BYTES);
	return b != NULL;
}

void cache_blob_add(struct pack_cache *c, const unsigned char key[SHA256_BYTES],
	const unsigned char hash[SHA256_BYTES])
{
	c->blobs = xgrow(c->blobs, &c->blobs_cap, c->nblobs + 1, sizeof *c->blobs);
	memcpy(c->blobs[c->nblobs].key, key, SHA256_BYTES);
	memcpy(c->blobs[c->nblobs++].sha256, hash, SHA256_BYTES);
}

/* --- keeping ---------------------------------------------------------------------------------- */

static void write_file(struct buf *out, const struct walk_stat *s,
	const struct manifest_entry *e)
{
	buf_addf(out, "f %llu %llu %lld %lld %lld ", (unsigned long long)s->device,
		(unsigned long long)s->inode, (long long)s->bytes,
		(long long)s->modified_ns, (long long)s->changed_ns);
	buf_add_hex(out, e->sha256, SHA256_BYTES);
	buf_addf(out, " %s\n", e->path);
}

/* Writes the blobs that were added, in order, each once. What this pack does not have goes. */
static void write_blobs(struct buf *out, struct pack_cache *c)
{
	struct cache_blob *added = c->blobs + c->nsorted;
	size_t n = c->nblobs - c->nsorted;

	if (n)
		qsort(added, n, sizeof *added, by_key);
	for (size_t i = 0; i < n; i++) {
		const struct cache_blob *b = &added[i];

		if (i && memcmp(b[-1].key, b->key, SHA256_BYTES) == 0)
			continue;
		buf_adds(out, "b ");
		buf_add_hex(out, b->key, SHA256_BYTES);
		buf_addc(out, ' ');
		buf_add_hex(out, b->sha256, SHA256_BYTES);
		buf_addc(out, '\n');
	}
}

void cache_save(struct pack_cache *c, const struct walk *w, const bool *known,
	int64_t begun_ns)
{
	struct buf text = BUF_INIT;

	if (!c->path)
		return;
	buf_adds(&text, HEAD);
	for (size_t i = 0; i < w->manifest.nentries; i++) {
		const struct walk_stat *s = &w->stats[i];

		if (known[i] && s->modified_ns >= 0 && s->changed_ns >= 0 &&
			s->modified_ns < begun_ns - RACY_NS &&
			s->changed_ns < begun_ns - RACY_NS)
			write_file(&text, s, &w->manifest.entries[i]);
	}
	write_blobs(&text, c);
	if ((text.len != c->text.len || memcmp(text.data, c->text.data, text.len) != 0) &&
		io_replace(c->path, text.data, text.len, 0600) < 0)
		err_clear();
	buf_release(&text);
}
