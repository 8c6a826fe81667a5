/* priced_node.c - reads the node that a price is for, and what it costs: see priced_node.h. */
#include "cmd/rnp-price/cost/priced_node.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"

static void say_no_gpu(struct priced_node *n)
{
	const json_t *unknown = json_object_get(json_object_get(n->record, "unknown"),
		"gpus");

	n->no_gpu = json_object_get(n->record, "gpus") ?
		"the node has no GPU, and markets list only nodes with one" :
		"it is not known whether the node has a GPU";
	if (!json_object_get(n->record, "gpus") && json_is_string(unknown))
		n->no_gpu = json_string_value(unknown);
}

/* Returns the group of this name, by any that the model has; -1: there is none. */
static int find_group(const struct gpu_group *groups, int n, const char *gpu_model)
{
	const struct gpu_model *wanted = gpu_find(gpu_model, 0);

	for (int i = 0; i < n; i++)
		if (strcasecmp(groups[i].model, gpu_model) == 0 ||
			(wanted && groups[i].known == wanted))
			return i;
	for (int i = 0; i < n; i++)
		if (wanted && groups[i].known &&
			strcmp(groups[i].known->family, wanted->family) == 0)
			return i;
	return -1;
}

static int read_gpus(struct priced_node *n, const char *path, const char *gpu_model)
{
	struct gpu_group groups[GPUS_MAX];
	int count = gpus_group(n->record, groups), i = 0;
	struct buf all = BUF_INIT;

	if (gpu_model && (i = find_group(groups, count, gpu_model)) < 0) {
		gpus_others(&all, groups, count, -1);
		err_set(EX_USAGE, "--gpu-model: '%.60s' is not among the GPUs of %s: %s",
			gpu_model, path, count ? buf_text(&all) : "it has none");
		buf_release(&all);
		return -1;
	}
	if (!count) {
		say_no_gpu(n);
		return 0;
	}
	n->known = groups[i].known;
	n->model = groups[i].model;
	n->gpus = groups[i].count;
	n->first = i == 0;
	n->memory_bytes = groups[i].memory_bytes;
	if (!n->memory_bytes && n->known)
		n->memory_bytes = n->known->memory_bytes;
	gpus_others(&n->others, groups, count, i);
	return 0;
}

int priced_node_read(struct priced_node *n, const char *path, const char *gpu_model)
{
	struct buf text = BUF_INIT;
	int rc = -1;

	*n = (struct priced_node)PRICED_NODE_INIT;
	if (io_read(&text, path, JSON_RECORD_BYTES_MAX) == 0)
		n->record = json_parse_object(buf_text(&text), text.len, path);
	if (n->record && schema_check(n->record, path, "rnp.node") == 0)
		rc = json_opt_text(n->record, path, "node", &n->address);
	if (rc == 0)
		rc = read_gpus(n, path, gpu_model);
	buf_release(&text);
	return rc;
}

void priced_node_release(struct priced_node *n)
{
	json_decref(n->record);
	buf_release(&n->others);
	*n = (struct priced_node)PRICED_NODE_INIT;
}

const char *priced_node_label(const struct priced_node *n, const char *name)
{
	return json_string_value(
		json_object_get(json_object_get(n->record, "labels"), name));
}
