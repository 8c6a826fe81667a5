/* facts.c - facts of a node record: a table says where each is found, a few have rules of their
 * own. */
#include "common/record/facts.h"

#include <stdio.h>
#include <string.h>

#include "common/record/gpu.h"

struct row {
	const char *name, *object, *key; /* object: NULL, or "gpus": the first of them */
	const char *source;
};

static const struct row rows[] = {
	{ "wallet", NULL, "wallet", "wallet" },
	{ "gpu_model", "gpus", "model", "gpus[0].model" },
	{ "gpu_count", "gpus", NULL, "gpus" },
	{ "gpu_memory_bytes", "gpus", "memory_bytes", "gpus[0].memory_bytes" },
	{ "gpu_clock_mhz", "gpus", "clock_max_mhz", "gpus[0].clock_max_mhz" },
	{ "gpu_memory_bandwidth_bps", "gpus", "memory_bandwidth_bps",
		"gpus[0].memory_bandwidth_bps" },
	{ "cpu_cores", "cpu", "cores", "cpu.cores" },
	{ "cpu_threads", "cpu", "threads", "cpu.threads" },
	{ "cpu_clock_mhz", "cpu", "clock_max_mhz", "cpu.clock_max_mhz" },
	{ "memory_bytes", NULL, "memory_bytes", "memory_bytes" },
	{ "nvme_bytes", "disks", NULL, "disks" },
	{ "os", "os", "name", "os.name" },
	{ "down_bps", "network", "down_bps", "network.down_bps" },
	{ "up_bps", "network", "up_bps", "network.up_bps" },
};

static const struct gpu_model *model_of(const json_t *gpu)
{
	const char *name = json_string_value(json_object_get(gpu, "model"));
	int64_t memory_bytes = json_integer_value(json_object_get(gpu, "memory_bytes"));

	return name ? gpu_find(name, memory_bytes) : NULL;
}

static void count_gpus(const json_t *gpus, struct fact *out)
{
	const json_t *gpu, *first = json_object_get(json_array_get(gpus, 0), "model");
	size_t i;

	out->known = true;
	json_array_foreach(gpus, i, gpu)
		out->value += json_equal(json_object_get(gpu, "model"), first);
}

static void sum_nvme(const json_t *disks, struct fact *out)
{
	const json_t *disk;
	size_t i;

	out->known = true;
	json_array_foreach(disks, i, disk) {
		const char *type = json_string_value(json_object_get(disk, "type"));

		/* virtual machines often do not know the kind of their disks */
		if (!type)
			out->known = false;
		else if (strcmp(type, "nvme") == 0)
			out->value += json_integer_value(
				json_object_get(disk, "size_bytes"));
	}
	out->known = out->known || out->value > 0;
	if (!out->known)
		snprintf(out->cause, sizeof out->cause,
			"the disks do not say their type");
}

static void set_value(const json_t *v, struct fact *out)
{
	if (json_is_string(v)) {
		out->known = true;
		out->text = json_string_value(v);
	} else if (json_is_integer(v) && json_integer_value(v) >= 0) {
		out->known = true;
		out->value = json_integer_value(v);
	}
}

/* Adds what the table of models knows beyond what the driver says: the model's usual name, and the
 * bandwidth of its memory. */
static void complete_gpu(const struct row *row, const json_t *gpu, struct fact *out)
{
	const struct gpu_model *model = model_of(gpu);

	if (!model)
		return;
	if (strcmp(row->name, "gpu_model") == 0)
		out->text = model->name;
	if (strcmp(row->name, "gpu_memory_bandwidth_bps") == 0 && !out->known &&
		model->bandwidth_mbytes) {
		out->known = true;
		out->value = model->bandwidth_mbytes * 1000000;
		out->source = "data sheet of the model";
	}
}

static void find_cause(const json_t *node, const struct row *row, struct fact *out)
{
	const char *top = row->object ? row->object : row->key;
	const json_t *unknown = json_object_get(node, "unknown"), *name;
	const json_t *withheld = json_object_get(node, "withheld");
	const char *text = json_string_value(json_object_get(unknown, row->source));
	size_t i;

	if (!text)
		text = json_string_value(json_object_get(unknown, row->name));
	if (!text)
		text = json_string_value(json_object_get(unknown, top));
	if (text && !out->cause[0])
		snprintf(out->cause, sizeof out->cause, "%s", text);
	json_array_foreach(withheld, i, name)
		if (json_is_string(name) && strcmp(json_string_value(name), top) == 0)
			snprintf(out->cause, sizeof out->cause,
				"the operator does not share it");
}

static void read_row(const json_t *node, const struct row *row, struct fact *out)
{
	const json_t *object = row->object ? json_object_get(node, row->object) : node;

	if (json_is_array(object) && json_array_size(object) == 0) {
		out->known = out->none = true;
	} else if (!row->key && json_is_array(object)) {
		if (strcmp(row->object, "gpus") == 0)
			count_gpus(object, out);
		else
			sum_nvme(object, out);
	} else if (row->key && json_is_array(object)) {
		set_value(json_object_get(json_array_get(object, 0), row->key), out);
		complete_gpu(row, json_array_get(object, 0), out);
	} else if (row->key) {
		set_value(json_object_get(object, row->key), out);
	}
}

bool fact_read(const json_t *node, const char *name, struct fact *out)
{
	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].name, name) != 0)
			continue;
		out->source = rows[i].source;
		read_row(node, &rows[i], out);
		if (!out->known)
			find_cause(node, &rows[i], out);
		return true;
	}
	return false;
}
