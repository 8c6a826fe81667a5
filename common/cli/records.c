/* records.c - reads JSON Lines record by record. */
#include "common/cli/records.h"

#include "common/json/json.h"
#include "common/base/lines.h"

int records_each(char **files, int n, size_t max_bytes, record_fn fn, void *ctx)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	lines_open(&in, files, n, max_bytes);
	while ((rc = lines_next(&in, &line, &len)) > 0) {
		struct record r = { .text = line, .len = len, .where = lines_where(&in) };

		r.json = json_parse_object(line, len, r.where);
		rc = r.json ? fn(ctx, &r) : -1;
		json_decref(r.json);
		if (rc < 0)
			break;
	}
	lines_close(&in);
	return rc;
}
