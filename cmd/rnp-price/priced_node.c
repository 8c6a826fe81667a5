/* priced_node.c - reads the node that a price is for, and what it costs: see priced_node.h. */
#include "cmd/rnp-price/priced_node.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"

static void read_gpus(struct priced_node *n)
{
	const json_t *gpus = json_object_get(n->record, "gpus"), *g;
	const json_t *unknown = json_object_get(json_object_get(n->record, "unknown"),
		"gpus");
	size_t i;

	n->gpus = (int64_t)json_array_size(gpus);
	if (!n->gpus) {
		n->no_gpu = gpus ?
			"the node has no GPU, and markets list only nodes with one" :
			"it is not known whether the node has a GPU";
		if (!gpus && json_is_string(unknown))
			n->no_gpu = json_string_value(unknown);
	}
	json_array_foreach(gpus, i, g) { /* the schema has checked each */
		const char *model = json_string_value(json_object_get(g, "model"));
		int64_t memory = json_integer_value(json_object_get(g, "memory_bytes"));
		const struct gpu_model *m = gpu_find(model, memory);

		if (i && (m != n->known || (!m && strcmp(model, n->model) != 0))) {
			n->model = NULL;
			n->no_gpu = "the node's GPUs are of different models";
			return;
		}
		if (i)
			continue;
		n->known = m;
		n->model = m ? m->name : model;
		n->memory_bytes = memory ? memory : m ? m->memory_bytes : 0;
	}
}

int priced_node_read(struct priced_node *n, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = -1;

	*n = (struct priced_node){ .record = NULL };
	if (io_read(&text, path, JSON_RECORD_BYTES_MAX) == 0)
		n->record = json_parse_object(buf_text(&text), text.len, path);
	if (n->record && schema_check(n->record, path, "rnp.node") == 0)
		rc = json_opt_text(n->record, path, "node", &n->address);
	if (rc == 0)
		read_gpus(n);
	buf_release(&text);
	return rc;
}

void priced_node_release(struct priced_node *n)
{
	json_decref(n->record);
	*n = (struct priced_node){ .record = NULL };
}

int priced_node_costs(struct costs *c, const char *path, int64_t from_ms)
{
	const char *doubtful;

	if (cost_load(c, path, from_ms, &doubtful) < 0)
		return -1;
	if (doubtful)
		prog_warn("%s: %s is under one cent: are dollars meant?", path, doubtful);
	return 0;
}
