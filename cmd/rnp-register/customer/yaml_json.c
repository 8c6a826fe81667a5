/* yaml_json.c - JSON that libyaml does not take: a character beyond U+FFFF as two \u escapes, a
 * name of more than 1024 characters. The tree has no places then. */
#include "cmd/rnp-register/customer/yaml_json.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/json/json.h"

static struct yaml *convert(struct arena *a, const json_t *v, size_t *room);

static bool convert_items(struct arena *a, const json_t *v, struct yaml *to, size_t *room)
{
	struct yaml **end = &to->first;
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_object(v)) {
		json_object_foreach((json_t *)v, key, item) {
			*end = convert(a, item, room);
			if (!*end)
				return false;
			(*end)->key = arena_strdup(a, key);
			end = &(*end)->next;
		}
	}
	json_array_foreach(v, i, item) {
		*end = convert(a, item, room);
		if (!*end)
			return false;
		end = &(*end)->next;
	}
	return true;
}

/* room: how many more values may follow. */
static struct yaml *convert(struct arena *a, const json_t *v, size_t *room)
{
	struct yaml *to = arena_alloc(a, sizeof *to);
	struct buf text = BUF_INIT;

	if (!(*room)--)
		return NULL;
	if (json_is_object(v) || json_is_array(v)) {
		to->type = json_is_object(v) ? YAML_MAP : YAML_LIST;
		return convert_items(a, v, to, room) ? to : NULL;
	}
	if (json_is_string(v)) {
		to->type = YAML_TEXT;
		to->text = arena_strdup(a, json_string_value(v));
		return to;
	}
	json_write(&text, v);
	to->text = arena_strdup(a, buf_text(&text));
	buf_release(&text);
	yaml_resolve(to);
	return to;
}

struct yaml *yaml_from_json(struct arena *a, const char *text, size_t len)
{
	json_t *v = json_parse_object(text, len, "job file");
	size_t room = YAML_VALUES_MAX;
	struct yaml *tree = v ? convert(a, v, &room) : NULL;

	json_decref(v);
	return tree;
}
