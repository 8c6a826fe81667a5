/* config_file.c - options of a subcommand from a JSON object. */
#include "cmd/rnp-train/local/config_file.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define BYTES_MAX ((size_t)1 << 20)

/* A flag that is left as it is: false for what is no flag would pass for a setting that holds. */
static int check_flag(const struct command *c, const char *name)
{
	for (const struct opt *o = c->opts; o->kind != OPT_END; o++)
		if (strcmp(o->name, name) == 0)
			return o->kind == OPT_FLAG ?
				0 :
				err_set(EX_USAGE, "'%.40s' needs a value", name);
	return opt_preset(c, name, NULL); /* says which name is near */
}

static int apply(const struct command *c, const char *name, const json_t *v)
{
	char number[32];

	/* nobody would read it */
	if (strcmp(name, "config") == 0)
		return err_set(EX_USAGE, "'config': a file names no other");
	if (json_is_false(v))
		return check_flag(c, name);
	if (json_is_true(v))
		return opt_preset(c, name, NULL);
	if (json_is_string(v))
		return opt_preset(c, name, json_string_value(v));
	if (json_is_integer(v))
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(number, sizeof number, "%.17g", json_real_value(v));
	else
		return err_set(EX_USAGE, "'%.40s' is no text, number or truth value",
			name);
	return opt_preset(c, name, number);
}

int config_file_apply(const struct command *c, const char *path, json_t **keep)
{
	struct buf text = BUF_INIT;
	const char *name;
	json_t *v;
	int rc = io_read(&text, path, BYTES_MAX);

	*keep = NULL;
	if (rc == 0) {
		*keep = json_parse_object(buf_text(&text), text.len, path);
		rc = *keep ? 0 : -1;
	}
	json_object_foreach(*keep, name, v) {
		if (rc == 0 && apply(c, name, v) < 0)
			rc = err_add("%s", path);
	}
	buf_release(&text);
	return rc;
}
