#include "cmd/rnp-price/quote_state.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define STATE_KIND      "rnp.price-state"
#define STATE_BYTES_MAX ((size_t)16 << 20)

void quote_state_release(struct quote_state *s)
{
	json_decref(s->doc);
	s->doc = NULL;
}

/* every entry must be one, so that a price is never taken from something else */
static int check(const json_t *doc, const char *path)
{
	json_t *nodes, *entry;
	const char *key;
	char where[300];
	int64_t ask;

	if (json_check_kind(doc, path, NULL) < 0 ||
		json_get_object(doc, path, "nodes", &nodes) < 0)
		return -1;
	if (strcmp(json_string_value(json_object_get(doc, "kind")), STATE_KIND) != 0)
		return err_set(EX_DATAERR, "%s: not a state of rnp-price quote", path);
	json_object_foreach(nodes, key, entry) {
		snprintf(where, sizeof where, "%.150s: nodes.%.100s", path, key);
		if (json_get_i64(entry, where, "ask_uusd", 0, JSON_SAFE_INTEGER_MAX,
			    &ask) < 0)
			return -1;
	}
	return 0;
}

int quote_state_load(struct quote_state *s, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = io_read(&text, path, STATE_BYTES_MAX);

	s->doc = NULL;
	if (rc < 0 && err_get()->code == EX_NOINPUT) {
		err_clear();
		s->doc = json_record(STATE_KIND);
		json_set(s->doc, "nodes", json_object());
		rc = 0;
	} else if (rc == 0) {
		s->doc = json_parse_object(buf_text(&text), text.len, path);
		rc = s->doc ? check(s->doc, path) : -1;
	}
	if (rc < 0)
		quote_state_release(s);
	buf_release(&text);
	return rc;
}

int64_t quote_state_ask(const struct quote_state *s, const char *node)
{
	const json_t *entry = json_object_get(json_object_get(s->doc, "nodes"), node);
	int64_t ask;

	if (!entry || json_get_i64(entry, "state", "ask_uusd", 0, INT64_MAX, &ask) < 0)
		return -1;
	return ask;
}

int quote_state_save(struct quote_state *s, const char *path, const char *node,
	int64_t ask_uusd, int64_t at_ms)
{
	json_t *entry = json_object();
	struct buf text = BUF_INIT;
	int rc;

	json_set_time(entry, "at", at_ms);
	json_set_i64(entry, "ask_uusd", ask_uusd);
	json_set(json_object_get(s->doc, "nodes"), node, entry);
	json_write(&text, s->doc);
	buf_addc(&text, '\n');
	rc = io_replace(path, text.data, text.len, 0644);
	buf_release(&text);
	return rc;
}
