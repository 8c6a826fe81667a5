/* pack.c - cuts, hashes and reads. */
#include "cmd/rnp-register/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/beneath.h"
#include "cmd/rnp-register/pack/cache.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"

#define JOINED_BYTES_MIN ((int64_t)1 << 20)
/* A blob of at least JOINED_BYTES_MIN ends before one name of so many, on average. */
#define JOINED_END_EVERY 64
#define TRIES            4

/* --- cutting ---------------------------------------------------------------------------------- */

static void open_piece(struct pack *p, size_t entry, int64_t offset, int64_t bytes)
{
	size_t n = p->walk.manifest.nblobs;

	p->pieces = xgrow(p->pieces, &p->pieces_cap, n + 1, sizeof *p->pieces);
	p->pieces[n] = (struct pack_piece){ entry, offset };
	manifest_add_blob(&p->walk.manifest)->bytes = bytes;
}

static bool ends_before(const char *path)
{
	/* FNV's low bits are the good ones */
	return fnv1a_text(FNV1A, path) % JOINED_END_EVERY == 0;
}

int pack_cut(struct pack *p)
{
	struct manifest *m = &p->walk.manifest;
	bool joining = false;

	m->nblobs = 0;
	for (size_t i = 0; i < m->nentries; i++) {
		const struct manifest_entry *e = &m->entries[i];
		struct manifest_blob *last = joining ? &m->blobs[m->nblobs - 1] : NULL;

		if (e->type != MANIFEST_FILE || !e->bytes)
			continue;
		if (e->bytes >= PACK_JOINED_BYTES_MAX) {
			for (int64_t at = 0; at < e->bytes; at += MANIFEST_BLOB_BYTES_MAX)
				open_piece(p, i, at,
					e->bytes - at < MANIFEST_BLOB_BYTES_MAX ?
						e->bytes - at :
						MANIFEST_BLOB_BYTES_MAX);
			joining = false;
		} else if (last && last->bytes + e->bytes <= PACK_JOINED_BYTES_MAX &&
			(last->bytes < JOINED_BYTES_MIN || !ends_before(e->path))) {
			last->bytes += e->bytes;
		} else {
			open_piece(p, i, 0, e->bytes);
			joining = true;
		}
		if (m->nblobs > MANIFEST_BLOBS_MAX)
			return err_set(EX_DATAERR,
				"more than 100000 pieces are too many to pack");
	}
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int changed(const char *path)
{
	return err_set(EX_TEMPFAIL, "'%.300s' changes while it is packed", path);
}

static int read_all(int fd, char *to, int64_t bytes, int64_t offset)
{
	while (bytes > 0) {
		ssize_t n = pread(fd, to, (size_t)bytes, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : 1;
		to += n, offset += n, bytes -= n;
	}
	return 0;
}

/* Reads a part of a file and appends it to out. Returns 0, or -1: 75 the file is not any more what
 * stat(2) said when it was found. */
static int read_part(const struct pack *p, size_t entry, int64_t offset, int64_t bytes,
	struct buf *out)
{
	const struct manifest_entry *e = &p->walk.manifest.entries[entry];
	const struct walk_stat *s = &p->walk.stats[entry];
	int fd = beneath_open(p->walk.fd, e->path, O_RDONLY | O_NONBLOCK, 0), rc = -1,
	    got;
	struct walk_stat now;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ?
			changed(e->path) :
			err_sys(0, "cannot read '%.300s'", e->path);
	got = read_all(fd, buf_reserve(out, (size_t)bytes), bytes, offset);
	if (got < 0) {
		err_sys(0, "cannot read '%.300s'", e->path);
		goto out;
	}
	if (got > 0 || fstat(fd, &st) < 0) {
		changed(e->path);
		goto out;
	}
	walk_stat_of(&now, &st);
	if (now.inode != s->inode || now.bytes != s->bytes ||
		now.modified_ns != s->modified_ns || now.changed_ns != s->changed_ns) {
		changed(e->path);
		goto out;
	}
	out->len += (size_t)bytes;
	rc = 0;
out:
	close(fd);
	return rc;
}

static int read_piece(const struct pack *p, size_t blob, struct buf *out)
{
	const struct manifest *m = &p->walk.manifest;
	int64_t rest = m->blobs[blob].bytes, offset = p->pieces[blob].offset;

	buf_reset(out);
	buf_reserve(out, (size_t)rest);
	for (size_t i = p->pieces[blob].entry; rest > 0; i++, offset = 0) {
		const struct manifest_entry *e = &m->entries[i];
		int64_t n = e->bytes - offset < rest ? e->bytes - offset : rest;

		if (e->type != MANIFEST_FILE || !n)
			continue;
		if (read_part(p, i, offset, n, out) < 0)
			return -1;
		rest -= n;
	}
	return 0;
}

int pack_read(const struct pack *p, size_t blob, struct buf *out)
{
	unsigned char hash[SHA256_BYTES];

	if (read_piece(p, blob, out) < 0)
		return -1;
	sha256(hash, out->data, out->len);
	if (memcmp(hash, p->walk.manifest.blobs[blob].sha256, SHA256_BYTES) != 0)
		return changed(p->walk.manifest.entries[p->pieces[blob].entry].path);
	return 0;
}

struct manifest_blob *pack_blobs(const struct pack *p)
{
	const struct manifest *m = &p->walk.manifest;
	struct manifest_blob *all = xcalloc(m->nblobs + 1, sizeof *all);

	if (m->nblobs)
		memcpy(all, m->blobs, m->nblobs * sizeof *all);
	all[m->nblobs].bytes = (int64_t)p->text.len;
	memcpy(all[m->nblobs].sha256, p->sha256, SHA256_BYTES);
	return all;
}

/* --- hashing ---------------------------------------------------------------------------------- */

struct packer {
	struct pack *p;
	const struct pack_config *config;
	struct pack_cache cache;
	bool *known;
	struct buf bytes, key;
};

/* Returns the entry behind the last one of a blob of joined files. */
static size_t joined_end(const struct pack *p, size_t blob)
{
	const struct manifest *m = &p->walk.manifest;
	int64_t rest = m->blobs[blob].bytes;
	size_t i = p->pieces[blob].entry;

	for (; rest > 0; i++)
		if (m->entries[i].type == MANIFEST_FILE)
			rest -= m->entries[i].bytes;
	return i;
}

static void tell(struct packer *k, int64_t bytes)
{
	k->p->read_bytes += bytes;
	if (k->config->progress)
		k->config->progress(k->config->ctx, bytes);
}

/* The key of joined files: the hash of their hashes. Returns false where one is not known. */
static bool joined_key(struct packer *k, size_t from, size_t to,
	unsigned char key[SHA256_BYTES])
{
	const struct manifest *m = &k->p->walk.manifest;

	buf_reset(&k->key);
	for (size_t i = from; i < to; i++) {
		if (m->entries[i].type != MANIFEST_FILE || !m->entries[i].bytes)
			continue;
		if (!k->known[i])
			return false;
		buf_add(&k->key, m->entries[i].sha256, SHA256_BYTES);
	}
	sha256(key, k->key.data, k->key.len);
	return true;
}

static int hash_joined(struct packer *k, size_t blob)
{
	struct manifest *m = &k->p->walk.manifest;
	size_t from = k->p->pieces[blob].entry, to = joined_end(k->p, blob);
	unsigned char key[SHA256_BYTES], *out = m->blobs[blob].sha256;
	const char *at;

	if (joined_key(k, from, to, key) && cache_blob_find(&k->cache, key, out)) {
		cache_blob_add(&k->cache, key, out);
		return 0;
	}
	if (read_piece(k->p, blob, &k->bytes) < 0)
		return -1;
	sha256(out, k->bytes.data, k->bytes.len);
	at = k->bytes.data;
	for (size_t i = from; i < to; i++) {
		if (m->entries[i].type != MANIFEST_FILE || !m->entries[i].bytes)
			continue;
		sha256(m->entries[i].sha256, at, (size_t)m->entries[i].bytes);
		k->known[i] = true;
		at += m->entries[i].bytes;
	}
	(void)joined_key(k, from, to, key);
	cache_blob_add(&k->cache, key, out);
	tell(k, m->blobs[blob].bytes);
	return 0;
}

/* The key of a piece of a large file: the hash of the file's and of where the piece begins. */
static void piece_key(const struct manifest_entry *e, int64_t offset,
	unsigned char key[SHA256_BYTES])
{
	unsigned char both[SHA256_BYTES + 8];

	memcpy(both, e->sha256, SHA256_BYTES);
	for (int i = 0; i < 8; i++)
		both[SHA256_BYTES + i] = (unsigned char)((uint64_t)offset >> 8 * i);
	sha256(key, both, sizeof both);
}

/* Whether all pieces of a large file are known; n: how many it has. */
static bool recall_large(struct packer *k, size_t blob, size_t n)
{
	struct manifest *m = &k->p->walk.manifest;
	unsigned char key[SHA256_BYTES];
	size_t entry = k->p->pieces[blob].entry;

	if (!k->known[entry])
		return false;
	for (size_t i = blob; i < blob + n; i++) {
		piece_key(&m->entries[entry], k->p->pieces[i].offset, key);
		if (!cache_blob_find(&k->cache, key, m->blobs[i].sha256))
			return false;
	}
	return true;
}

static int hash_large(struct packer *k, size_t blob, size_t n)
{
	struct manifest *m = &k->p->walk.manifest;
	struct manifest_entry *e = &m->entries[k->p->pieces[blob].entry];
	unsigned char key[SHA256_BYTES];
	struct sha256_state state;

	if (!recall_large(k, blob, n)) {
		sha256_init(&state);
		for (size_t i = blob; i < blob + n; i++) {
			if (read_piece(k->p, i, &k->bytes) < 0)
				return -1;
			sha256(m->blobs[i].sha256, k->bytes.data, k->bytes.len);
			sha256_update(&state, k->bytes.data, k->bytes.len);
			tell(k, m->blobs[i].bytes);
		}
		sha256_final(&state, e->sha256);
		k->known[e - m->entries] = true;
	}
	for (size_t i = blob; i < blob + n; i++) {
		piece_key(e, k->p->pieces[i].offset, key);
		cache_blob_add(&k->cache, key, m->blobs[i].sha256);
	}
	return 0;
}

static int hash_all(struct packer *k)
{
	struct manifest *m = &k->p->walk.manifest;

	for (size_t i = 0; i < m->nentries; i++)
		if (m->entries[i].type == MANIFEST_FILE && !m->entries[i].bytes)
			sha256(m->entries[i].sha256, "", 0);
	for (size_t i = 0; i < m->nblobs;) {
		size_t entry = k->p->pieces[i].entry, n = 1;
		int rc;

		while (i + n < m->nblobs && k->p->pieces[i + n].entry == entry)
			n++;
		rc = m->entries[entry].bytes >= PACK_JOINED_BYTES_MAX ?
			hash_large(k, i, n) :
			hash_joined(k, i);
		if (rc < 0)
			return -1;
		i += n;
	}
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

void pack_release(struct pack *p)
{
	walk_directory_release(&p->walk);
	free(p->pieces);
	buf_release(&p->text);
	memset(p, 0, sizeof *p);
	p->walk.fd = -1;
}

static int pack_once(struct packer *k, const char *dir)
{
	struct timespec now;
	struct pack *p = k->p;
	int64_t begun_ns;
	int rc;

	/* not RNP_NOW: it is compared with times of the file system */
	clock_gettime(CLOCK_REALTIME, &now);
	begun_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
	if (walk_directory(&p->walk, dir, k->config->rules, k->config->bytes_max) < 0 ||
		pack_cut(p) < 0)
		return -1;
	k->known = xcalloc(p->walk.manifest.nentries + 1, sizeof *k->known);
	if (k->config->cache)
		cache_open(&k->cache, dir);
	cache_recall(&k->cache, &p->walk, k->known);
	rc = hash_all(k);
	if (rc == 0) {
		cache_save(&k->cache, &p->walk, k->known, begun_ns);
		manifest_write(&p->text, &p->walk.manifest);
		sha256(p->sha256, p->text.data, p->text.len);
	}
	cache_release(&k->cache);
	free(k->known);
	return rc;
}

int pack_directory(struct pack *p, const char *dir, const struct pack_config *config)
{
	struct packer k = { .p = p, .config = config };
	int rc = -1;

	for (int i = 0; i < TRIES && rc < 0; i++) {
		*p = (struct pack){ .walk = WALK_INIT };
		rc = pack_once(&k, dir);
		if (rc == 0 && p->text.len > MANIFEST_BYTES_MAX)
			rc = err_set(EX_DATAERR,
				"%s: more files than fit into a manifest of 64 MiB", dir);
		if (rc < 0)
			pack_release(p);
		if (rc < 0 && err_get()->code != EX_TEMPFAIL)
			break;
	}
	buf_release(&k.bytes);
	buf_release(&k.key);
	return rc;
}

static void left_text(struct buf *out, const struct walk_left *l, const char *one,
	const char *many)
{
	if (!l->n)
		return;
	buf_addf(out, "%s%zu %s", out->len ? ", " : "left out: ", l->n,
		l->n == 1 ? one : many);
	for (size_t i = 0; i < l->n && i < WALK_EXAMPLES; i++)
		buf_addf(out, "%s'%s'", i ? ", " : " (", l->examples[i]);
	buf_adds(out, l->n > WALK_EXAMPLES ? ", ...)" : ")");
}

void pack_left_text(struct buf *out, const struct pack *p)
{
	left_text(out, &p->walk.ignored, "by a rule", "by rules");
	left_text(out, &p->walk.links, "link that leads out of the directory",
		"links that lead out of the directory");
	left_text(out, &p->walk.special, "that is neither file nor directory",
		"that are neither files nor directories");
}
