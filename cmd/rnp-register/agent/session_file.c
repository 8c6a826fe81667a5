/* session_file.c - the agent made the file from a booking that it has verified; what comes from the
 * customer in it, keys and names, is held against its form once more. */
#include "cmd/rnp-register/agent/session_file.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* Whether a text can stand in configurations of SSH as it is. */
static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("/._-:@+", *p))
			return false;
	return text[0] != '-';
}

/* Copies a text of the record; one that is absent and may be is "". */
static int take_text(const json_t *record, const char *where, const char *name,
	bool required, char *out, size_t size)
{
	const char *text = "";
	int rc = required ? json_get_text(record, where, name, &text) :
			    json_opt_text(record, where, name, &text);

	if (rc == 0 && (strlen(text) >= size || !is_plain(text)))
		rc = err_set(EX_DATAERR,
			"%s: '%s' is too long, or has a character that "
			"cannot stand there",
			where, name);
	if (rc == 0)
		snprintf(out, size, "%s", text);
	return rc;
}

static int take_key(const json_t *record, const char *where, const char *name,
	struct sshkey *out)
{
	const char *text;

	return json_get_text(record, where, name, &text) < 0 ?
		-1 :
		sshkey_parse(text, where, out);
}

static int take_gateway(struct session_file *f, const json_t *record, const char *where)
{
	json_t *g;

	if (json_get_object(record, where, "gateway", &g) < 0 ||
		take_text(g, where, "host", true, f->gateway_host,
			sizeof f->gateway_host) < 0 ||
		take_text(g, where, "user", true, f->gateway_user,
			sizeof f->gateway_user) < 0 ||
		json_get_i64(g, where, "port", 1, 65535, &f->gateway_port) < 0)
		return -1;
	return take_key(g, where, "host_key", &f->gateway_key);
}

static int take_keys(struct session_file *f, const json_t *record, const char *where)
{
	json_t *keys, *item;
	char at[SESSION_PATH_MAX + 32];
	size_t i;

	if (json_get_array(record, where, "keys", &keys) < 0)
		return -1;
	if (json_array_size(keys) > SESSION_KEYS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d keys", where,
			SESSION_KEYS_MAX);
	json_array_foreach(keys, i, item) {
		const char *text = json_string_value(item);

		snprintf(at, sizeof at, "%s: keys[%zu]", where, i);
		if (sshkey_parse(text ? text : "", at, &f->keys[i]) < 0)
			return -1;
		f->nkeys++;
	}
	return 0;
}

static int take_peer(struct session_file *f, struct session_peer *p, const json_t *item,
	const char *where)
{
	const char *node;

	if (json_get_i64(item, where, "rank", 0, f->ranks - 1, &p->rank) < 0 ||
		json_get_i64(item, where, "number", 1, PLACE_NUMBER_MAX, &p->number) <
			0 ||
		json_get_text(item, where, "node", &node) < 0 ||
		address_parse(node, where, p->public_key) < 0)
		return -1;
	if (p->rank == f->rank)
		return err_set(EX_DATAERR, "%s: rank %d is this one", where,
			(int)p->rank);
	p->address = place_rank(f->cluster, f->ranks, p->rank);
	return take_key(item, where, "host_key", &p->host_key);
}

static int take_peers(struct session_file *f, const json_t *record, const char *where)
{
	json_t *peers = json_object_get(record, "peers"), *item;
	char at[SESSION_PATH_MAX + 32];
	size_t i;

	if (!peers)
		return 0;
	if (!json_is_array(peers) || json_array_size(peers) > SESSION_PEERS_MAX)
		return err_set(EX_DATAERR, "%s: 'peers' is no list of at most %d", where,
			SESSION_PEERS_MAX);
	f->peers = xcalloc(json_array_size(peers) + 1, sizeof(struct session_peer));
	json_array_foreach(peers, i, item) {
		snprintf(at, sizeof at, "%s: peers[%zu]", where, i);
		if (take_peer(f, &f->peers[i], item, at) < 0)
			return -1;
		f->npeers++;
	}
	return 0;
}

static int take_podman(struct session_file *f, const json_t *record, const char *where)
{
	json_t *p = json_object_get(record, "podman");

	if (!p)
		return 0;
	if (take_text(p, where, "root", true, f->podman_root, SESSION_PATH_MAX) < 0 ||
		take_text(p, where, "run", true, f->podman_run, SESSION_PATH_MAX) < 0)
		return -1;
	return take_text(p, where, "images", false, f->podman_images, SESSION_PATH_MAX);
}

static int take_all(struct session_file *f, const json_t *record, const char *where)
{
	if (json_check_kind(record, where, "rnp.session") < 0 ||
		take_text(record, where, "cluster", true, f->cluster, sizeof f->cluster) <
			0 ||
		json_get_i64(record, where, "ranks", 1, PLACE_RANKS_MAX, &f->ranks) < 0 ||
		json_get_i64(record, where, "rank", 0, f->ranks - 1, &f->rank) < 0 ||
		json_get_i64(record, where, "number", 1, PLACE_NUMBER_MAX, &f->number) <
			0 ||
		take_text(record, where, "user", true, f->user, sizeof f->user) < 0 ||
		take_text(record, where, "host_key_file", true, f->host_key_file,
			SESSION_PATH_MAX) < 0 ||
		take_text(record, where, "netns", false, f->netns, SESSION_PATH_MAX) <
			0 ||
		take_text(record, where, "container", false, f->container,
			sizeof f->container) < 0 ||
		take_text(record, where, "go", false, f->go, SESSION_PATH_MAX) < 0)
		return -1;
	f->address = place_rank(f->cluster, f->ranks, f->rank);
	if (take_gateway(f, record, where) < 0 || take_podman(f, record, where) < 0 ||
		take_keys(f, record, where) < 0)
		return -1;
	return take_peers(f, record, where);
}

int session_file_read(struct session_file *out, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *record = NULL;
	int rc = -1;

	*out = (struct session_file){ 0 };
	if (io_read(&text, path, JSON_RECORD_BYTES_MAX) == 0)
		record = json_parse_object(text.data, text.len, path);
	if (record)
		rc = take_all(out, record, path);
	if (rc < 0)
		session_file_release(out);
	json_decref(record);
	buf_release(&text);
	return rc;
}

void session_file_release(struct session_file *f)
{
	free(f->peers);
	f->peers = NULL;
	f->npeers = 0;
}
