/* image.c - reads references and manifests, and asks registries for the latter. */
#include "cmd/rnp-register/agent/image.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/json/json.h"

#define DIGEST_PREFIX "sha256:"
#define DIGITS        64
#define MANIFESTS_MAX 256
#define DEPTH_MAX     16

/* --- names ----------------------------------------------------------------------------------- */

static bool is_digest(const char *s)
{
	return strncmp(s, DIGEST_PREFIX, 7) == 0 &&
		strspn(s + 7, "0123456789abcdef") == DIGITS && !s[7 + DIGITS];
}

/* As in the references of Docker: lower case, digits and separators, no empty part. */
static bool is_path(const char *s)
{
	const char *before = "/";

	if (!*s)
		return false;
	for (; *s; before = s++) {
		if (*s == '/' && (*before == '/' || !s[1]))
			return false;
		if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) &&
			!strchr("._-/", *s))
			return false;
	}
	return true;
}

static bool is_host(const char *s)
{
	return *s &&
		s[strspn(s,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			"0123456789.-:[]")] == '\0';
}

/* The first part of a name is a host if it looks like one; "library/busybox" has none. */
static size_t host_bytes(const char *name)
{
	size_t n = strcspn(name, "/");

	if (!name[n])
		return 0;
	if (memchr(name, '.', n) || memchr(name, ':', n) ||
		(n == 9 && strncmp(name, "localhost", n) == 0))
		return n;
	return 0;
}

static bool is_loopback(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
		strcmp(host, "localhost") == 0 || strncmp(host, "localhost:", 10) == 0;
}

int image_name_parse(struct image_name *out, const char *reference)
{
	const char *at = strchr(reference, '@'), *path, *tag;
	char name[IMAGE_NAME_MAX];
	size_t host;

	if (!at) {
		err_set(EX_DATAERR, "image '%.300s' has no digest", reference);
		return err_hint(
			"a tag may be another image tomorrow: write NAME@sha256:...");
	}
	if (!is_digest(at + 1) || at - reference >= IMAGE_NAME_MAX - 16)
		return err_set(EX_DATAERR, "image '%.300s' has no digest of SHA-256",
			reference);
	snprintf(name, sizeof name, "%.*s", (int)(at - reference), reference);
	host = host_bytes(name);
	path = name + host + (host > 0);
	tag = strchr(path, ':');
	if (tag)
		name[tag - name] = '\0';
	snprintf(out->host, sizeof out->host, "%.*s", host ? (int)host : 9,
		host ? name : "docker.io");
	snprintf(out->path, sizeof out->path, "%s%.240s",
		strcmp(out->host, "docker.io") == 0 && !strchr(path, '/') ? "library/" :
									    "",
		path);
	snprintf(out->digest, sizeof out->digest, "%s", at + 1);
	out->local = is_loopback(out->host);
	out->public_only = false;
	if (!is_path(path) || !is_host(out->host))
		return err_set(EX_DATAERR, "'%.300s' is not the name of an image",
			reference);
	return 0;
}

void image_name_write(struct buf *out, const struct image_name *n)
{
	buf_addf(out, "%s/%s@%s", n->host, n->path, n->digest);
}

/* --- manifests ------------------------------------------------------------------------------- */

const char *image_arch(void)
{
	static char other[65];
	struct utsname u;

	if (uname(&u) < 0 || strcmp(u.machine, "x86_64") == 0)
		return "amd64";
	if (strcmp(u.machine, "aarch64") == 0)
		return "arm64";
	snprintf(other, sizeof other, "%.64s", u.machine);
	return other;
}

/* Adds a name to those that a list has, once each, as far as there is room. */
static void note_arch(char *has, size_t max, const char *arch)
{
	size_t n = strlen(has);

	if (!strstr(has, arch) && n + strlen(arch) + 3 < max)
		snprintf(has + n, max - n, "%s%s", n ? ", " : "", arch);
}

static int read_list(struct image_size *out, const json_t *list, const char *arch)
{
	char has[200] = "";
	size_t i;
	json_t *item;

	if (json_array_size(list) > MANIFESTS_MAX)
		return err_set(EX_DATAERR, "the image is a list of %zu images, %d may be",
			json_array_size(list), MANIFESTS_MAX);
	json_array_foreach(list, i, item) {
		const json_t *platform = json_object_get(item, "platform");
		const char *os = NULL, *of = NULL, *digest = NULL;

		if (json_get_text(item, "manifest", "digest", &digest) < 0 ||
			!is_digest(digest))
			return err_set(EX_DATAERR, "the image's list names no digest");
		if (json_opt_text(platform, "manifest", "os", &os) < 0 ||
			json_opt_text(platform, "manifest", "architecture", &of) < 0)
			return -1;
		if (!os || !of || strcmp(os, "linux") != 0)
			continue;
		note_arch(has, sizeof has, of);
		if (strcmp(of, arch) == 0 && !out->next[0])
			snprintf(out->next, sizeof out->next, "%s", digest);
	}
	if (out->next[0])
		return 0;
	return err_set(EX_DATAERR, "the image is for %s, and this node is %s",
		has[0] ? has : "no Linux", arch);
}

static int read_layers(struct image_size *out, const json_t *layers)
{
	size_t i;
	json_t *layer;

	if (json_array_size(layers) > IMAGE_LAYERS_MAX)
		return err_set(EX_DATAERR, "the image has %zu layers, %d may be",
			json_array_size(layers), IMAGE_LAYERS_MAX);
	json_array_foreach(layers, i, layer) {
		int64_t bytes = 0;

		if (json_get_i64(layer, "manifest", "size", 0,
			    INT64_MAX / IMAGE_LAYERS_MAX, &bytes) < 0)
			return -1;
		out->bytes += bytes;
		out->layers++;
	}
	return 0;
}

int image_size_read(struct image_size *out, const char *text, size_t len,
	const char *arch)
{
	json_t *m = json_parse_object_to(text, len, DEPTH_MAX, "manifest"), *items = NULL;
	int rc = -1;

	*out = (struct image_size){ 0 };
	if (!m)
		return -1;
	items = json_object_get(m, "manifests");
	if (json_is_array(items)) {
		rc = read_list(out, items, arch);
	} else {
		rc = json_get_array(m, "manifest", "layers", &items);
		if (rc == 0)
			rc = read_layers(out, items);
	}
	json_decref(m);
	return rc;
}
