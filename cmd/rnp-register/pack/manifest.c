/* manifest.c - writes and reads manifests. They are written by hand, as canonical JSON of a form
 * that does not change: ten thousand files are a few milliseconds. */
#include "cmd/rnp-register/pack/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/json/canon.h"
#include "common/json/json.h"

/* What the values of a manifest may take in memory while it is read. */
#define VALUES_BYTES_MAX ((size_t)640 << 20)

void manifest_release(struct manifest *m)
{
	for (size_t i = 0; i < m->nentries; i++) {
		free(m->entries[i].path);
		free(m->entries[i].target);
	}
	free(m->entries);
	free(m->blobs);
	memset(m, 0, sizeof *m);
}

struct manifest_entry *manifest_add(struct manifest *m,
	const struct manifest_entry *takes)
{
	m->entries = xgrow(m->entries, &m->entries_cap, m->nentries + 1,
		sizeof *m->entries);
	m->entries[m->nentries] = *takes;
	return &m->entries[m->nentries++];
}

struct manifest_blob *manifest_add_blob(struct manifest *m)
{
	m->blobs = xgrow(m->blobs, &m->blobs_cap, m->nblobs + 1, sizeof *m->blobs);
	memset(&m->blobs[m->nblobs], 0, sizeof *m->blobs);
	return &m->blobs[m->nblobs++];
}

/* --- paths ------------------------------------------------------------------------------------ */

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

const char *manifest_path_fault(const char *path)
{
	const char *p = path;
	int depth = 0;

	if (strlen(path) > MANIFEST_PATH_MAX)
		return "is longer than 4000 bytes";
	if (has_control(path))
		return "has a newline or another control character";
	if (!utf8_valid(path, strlen(path)))
		return "is not UTF-8";
	for (;; p++) {
		size_t len = strcspn(p, "/");

		if (len == 0)
			return "has an empty part";
		if (len > 255)
			return "has a part of more than 255 bytes";
		if (p[0] == '.' && (len == 1 || (len == 2 && p[1] == '.')))
			return len == 1 ? "has a part '.'" : "has a part '..'";
		if (++depth > MANIFEST_DEPTH_MAX)
			return "is more than 128 directories deep";
		p += len;
		if (!*p)
			return NULL;
	}
}

const char *manifest_link_fault(const char *path, const char *target)
{
	const char *p = target;
	bool down = false;
	int depth = 0;

	for (const char *s = path; *s; s++)
		depth += *s == '/';
	if (!*target || strlen(target) > MANIFEST_PATH_MAX)
		return "says nothing, or more than 4000 bytes";
	if (has_control(target) || !utf8_valid(target, strlen(target)))
		return "says what is not a line of UTF-8";
	if (*target == '/')
		return "leads out of the directory";
	while (*p) {
		size_t len = strcspn(p, "/");

		if (len == 2 && memcmp(p, "..", 2) == 0) {
			if (down || --depth < 0)
				return "leads out of the directory";
		} else if (len && !(len == 1 && *p == '.')) {
			down = true;
		}
		p += len + (p[len] == '/');
	}
	return NULL;
}

int manifest_order(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (*a == '/' ? 1 : (unsigned char)*a) - (*b == '/' ? 1 : (unsigned char)*b);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void write_text(struct buf *out, const char *key, const char *text)
{
	buf_addf(out, "\"%s\":", key);
	canon_string(out, text, strlen(text));
}

static void write_hash(struct buf *out, const unsigned char sha256[SHA256_BYTES])
{
	buf_adds(out, "\"sha256\":\"");
	buf_add_hex(out, sha256, SHA256_BYTES);
	buf_addc(out, '"');
}

static void write_entry(struct buf *out, const struct manifest_entry *e)
{
	switch (e->type) {
	case MANIFEST_FILE:
		buf_addf(out, "{\"bytes\":%lld,\"mode\":%u,", (long long)e->bytes,
			e->mode);
		write_text(out, "path", e->path);
		buf_addc(out, ',');
		write_hash(out, e->sha256);
		break;
	case MANIFEST_DIR:
		buf_addf(out, "{\"dir\":true,\"mode\":%u,", e->mode);
		write_text(out, "path", e->path);
		break;
	case MANIFEST_LINK:
		buf_addc(out, '{');
		write_text(out, "link", e->target);
		buf_addc(out, ',');
		write_text(out, "path", e->path);
		break;
	}
	buf_addc(out, '}');
}

void manifest_write(struct buf *out, const struct manifest *m)
{
	buf_adds(out, "{\"blobs\":[");
	for (size_t i = 0; i < m->nblobs; i++) {
		buf_addf(out, "%s{\"bytes\":%lld,", i ? "," : "",
			(long long)m->blobs[i].bytes);
		write_hash(out, m->blobs[i].sha256);
		buf_addc(out, '}');
	}
	buf_addf(out, "],\"bytes\":%lld,\"files\":[", (long long)m->bytes);
	for (size_t i = 0; i < m->nentries; i++) {
		if (i)
			buf_addc(out, ',');
		write_entry(out, &m->entries[i]);
	}
	buf_adds(out, "],\"kind\":\"rnp.manifest\",\"v\":1}");
}

/* --- reading ---------------------------------------------------------------------------------- */

int manifest_hash_read(unsigned char out[SHA256_BYTES], const char *hex)
{
	if (strlen(hex) != 2 * SHA256_BYTES ||
		strspn(hex, "0123456789abcdef") != 2 * SHA256_BYTES)
		return -1;
	return sodium_hex2bin(out, SHA256_BYTES, hex, 2 * SHA256_BYTES, NULL, NULL, NULL);
}

static int read_hash(const json_t *v, const char *where, unsigned char out[SHA256_BYTES])
{
	const char *hex;

	if (json_get_text(v, where, "sha256", &hex) < 0)
		return -1;
	if (manifest_hash_read(out, hex) < 0)
		return err_set(EX_DATAERR, "%s: field 'sha256' is no hash", where);
	return 0;
}

static int read_blobs(struct manifest *m, const json_t *list, const char *where)
{
	const json_t *v;
	int64_t sum = 0;
	size_t i;

	if (json_array_size(list) > MANIFEST_BLOBS_MAX)
		return err_set(EX_DATAERR, "%s: more than 100000 blobs", where);
	json_array_foreach(list, i, v) {
		struct manifest_blob *b = manifest_add_blob(m);

		if (json_get_i64(v, where, "bytes", 1, MANIFEST_BLOB_BYTES_MAX,
			    &b->bytes) < 0 ||
			read_hash(v, where, b->sha256) < 0)
			return -1;
		sum += b->bytes;
	}
	if (sum != m->bytes)
		return err_set(EX_DATAERR,
			"%s: its blobs have %lld bytes, its files %lld", where,
			(long long)sum, (long long)m->bytes);
	return 0;
}

static int read_kind_of(struct manifest_entry *e, const json_t *v, const char *where)
{
	const char *target = NULL, *fault;
	bool dir = false;
	int64_t mode = 0;

	if (json_opt_text(v, where, "link", &target) < 0 ||
		json_opt_bool(v, where, "dir", &dir) < 0)
		return -1;
	e->type = target ? MANIFEST_LINK : dir ? MANIFEST_DIR : MANIFEST_FILE;
	if (target) {
		fault = manifest_link_fault(e->path, target);
		if (fault)
			return err_set(EX_DATAERR, "%s: link '%s' %s", where, e->path,
				fault);
		e->target = xstrdup(target);
		return 0;
	}
	if (json_get_i64(v, where, "mode", 0, 0777, &mode) < 0)
		return -1;
	e->mode = (uint32_t)mode;
	if (dir)
		return 0;
	return json_get_i64(v, where, "bytes", 0, JSON_SAFE_INTEGER_MAX, &e->bytes) < 0 ||
			read_hash(v, where, e->sha256) < 0 ?
		-1 :
		0;
}

/* Whether each directory above path is an entry of the list, and a directory. Entries are in order,
 * so that those above it stand before it: stack has the indices of those open at present. */
struct above {
	size_t stack[MANIFEST_DEPTH_MAX];
	int n;
};

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static int check_above(const struct manifest *m, struct above *a, size_t i,
	const char *where)
{
	const struct manifest_entry *e = &m->entries[i];
	const char *slash = strrchr(e->path, '/');

	while (a->n && !is_below(e->path, m->entries[a->stack[a->n - 1]].path))
		a->n--;
	if (slash &&
		(!a->n ||
			strlen(m->entries[a->stack[a->n - 1]].path) !=
				(size_t)(slash - e->path)))
		return err_set(EX_DATAERR, "%s: '%s' lies in no directory of the list",
			where, e->path);
	if (e->type == MANIFEST_DIR) {
		if (a->n >= MANIFEST_DEPTH_MAX)
			return err_set(EX_DATAERR, "%s: '%s' lies too deep", where,
				e->path);
		a->stack[a->n++] = i;
	}
	return 0;
}

static int read_entry(struct manifest *m, const json_t *v, const char *where)
{
	struct manifest_entry e = { 0 }, *added;
	const char *path, *fault;

	if (json_get_text(v, where, "path", &path) < 0)
		return -1;
	fault = manifest_path_fault(path);
	if (fault)
		return err_set(EX_DATAERR, "%s: path '%.200s' %s", where, path, fault);
	e.path = xstrdup(path);
	added = manifest_add(m, &e);
	if (read_kind_of(added, v, where) < 0)
		return -1;
	if (m->nentries > 1 && manifest_order(added[-1].path, path) >= 0)
		return err_set(EX_DATAERR, "%s: path '%s' is not behind '%s'", where,
			path, added[-1].path);
	if (added->bytes > JSON_SAFE_INTEGER_MAX - m->bytes)
		return err_set(EX_DATAERR, "%s: the files have too many bytes", where);
	m->bytes += added->bytes;
	return 0;
}

static int read_entries(struct manifest *m, const json_t *list, const char *where)
{
	struct above above = { .n = 0 };
	const json_t *v;
	size_t i;

	if (json_array_size(list) > MANIFEST_ENTRIES_MAX)
		return err_set(EX_DATAERR, "%s: more than 500000 files", where);
	json_array_foreach(list, i, v)
		if (read_entry(m, v, where) < 0 || check_above(m, &above, i, where) < 0)
			return -1;
	return 0;
}

int manifest_read(struct manifest *m, const char *text, size_t len, const char *where)
{
	json_t *doc = NULL, *files, *blobs;
	int64_t bytes;
	int rc = -1;

	memset(m, 0, sizeof *m);
	if (len > MANIFEST_BYTES_MAX)
		return err_set(EX_DATAERR, "%s: more than 64 MiB", where);
	doc = json_parse_bounded(text, len, 8, VALUES_BYTES_MAX, where);
	if (!doc || json_check_kind(doc, where, "rnp.manifest") < 0 ||
		json_get_array(doc, where, "files", &files) < 0 ||
		json_get_array(doc, where, "blobs", &blobs) < 0 ||
		json_get_i64(doc, where, "bytes", 0, JSON_SAFE_INTEGER_MAX, &bytes) < 0 ||
		read_entries(m, files, where) < 0)
		goto out;
	if (bytes != m->bytes) {
		err_set(EX_DATAERR, "%s: its files have %lld bytes, it says %lld", where,
			(long long)m->bytes, (long long)bytes);
		goto out;
	}
	rc = read_blobs(m, blobs, where);
out:
	json_decref(doc);
	if (rc < 0)
		manifest_release(m);
	return rc;
}
