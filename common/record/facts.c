/* facts.c - facts of a node record: a table says where each is found, a few have rules of their
 * own. */
#include "common/record/facts.h"

#include <stdio.h>
#include <string.h>

#include "common/record/gpu.h"

struct row {
	const char *name, *object, *key; /* object: NULL, or "gpus": each of a group */
	const char *source;              /* NULL: of one of the GPUs */
};

static const struct row rows[] = {
	{ "wallet", NULL, "wallet", "wallet" },
	{ "gpu_model", "gpus", "model", NULL },
	{ "gpu_count", "gpus", NULL, "gpus" },
	{ "gpu_memory_bytes", "gpus", "memory_bytes", NULL },
	{ "gpu_clock_mhz", "gpus", "clock_max_mhz", NULL },
	{ "gpu_memory_bandwidth_bps", "gpus", "memory_bandwidth_bps", NULL },
	{ "cpu_cores", "cpu", "cores", "cpu.cores" },
	{ "cpu_threads", "cpu", "threads", "cpu.threads" },
	{ "cpu_clock_mhz", "cpu", "clock_max_mhz", "cpu.clock_max_mhz" },
	{ "memory_bytes", NULL, "memory_bytes", "memory_bytes" },
	{ "nvme_bytes", "disks", NULL, "disks" },
	{ "os", "os", "name", "os.name" },
	{ "down_bps", "network", "down_bps", "network.down_bps" },
	{ "up_bps", "network", "up_bps", "network.up_bps" },
};

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

static bool is_of_gpus(const struct row *row)
{
	return row->object && strcmp(row->object, "gpus") == 0;
}

static void set_source(struct fact *out, int gpu, const char *key)
{
	snprintf(out->source, sizeof out->source, "gpus[%d].%s", gpu, key);
}

/* Takes the least that one of the group's GPUs states: all of them have that. */
static void read_least(const struct row *row, const struct gpu_group *g, struct fact *out)
{
	set_source(out, g->at[0], row->key);
	for (int64_t i = 0; i < g->count; i++) {
		struct fact one = { .known = false };

		set_value(json_object_get(json_array_get(g->gpus, (size_t)g->at[i]),
				  row->key),
			&one);
		if (!one.known || (out->known && one.value >= out->value))
			continue;
		out->known = true;
		out->value = one.value;
		set_source(out, g->at[i], row->key);
	}
}

/* Whether the cards of a group have so little memory that they cannot be what their name says: that
 * of another card, or a slice of one. More than the model has is only capped where it is paid. */
static bool is_too_small(const struct gpu_group *g, struct fact *out)
{
	const struct gpu_model *m = g->known ? NULL : gpu_find(g->model, 0);

	if (!m || !g->memory_bytes || g->memory_bytes >= m->memory_bytes)
		return false;
	snprintf(out->cause, sizeof out->cause,
		"it says '%.60s' and has %.1f GiB of memory, where such a GPU has %.1f",
		g->model, (double)g->memory_bytes / (1 << 30),
		(double)m->memory_bytes / (1 << 30));
	return true;
}

static void read_group(const struct row *row, const struct gpu_group *g, struct fact *out)
{
	if (!row->key) {
		out->known = true;
		out->value = g->count;
		return;
	}
	if (strcmp(row->key, "model") == 0) {
		out->known = !is_too_small(g, out);
		out->text = out->known ? g->model : NULL;
		set_source(out, g->at[0], row->key);
		return;
	}
	read_least(row, g, out);
	if (!out->known && strcmp(row->key, "memory_bandwidth_bps") == 0 && g->known &&
		g->known->bandwidth_mbytes) {
		out->known = true;
		out->value = g->known->bandwidth_mbytes * 1000000;
		snprintf(out->source, sizeof out->source, "data sheet of the model");
	}
}

static void find_cause(const json_t *node, const struct row *row, struct fact *out)
{
	const char *top = row->object ? row->object : row->key;
	const json_t *unknown = json_object_get(node, "unknown"), *name;
	const json_t *withheld = json_object_get(node, "withheld");
	const char *text = json_string_value(json_object_get(unknown, out->source));
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

static void read_row(const json_t *node, const struct row *row,
	const struct gpu_group *group, struct fact *out)
{
	const json_t *object = row->object ? json_object_get(node, row->object) : node;

	snprintf(out->source, sizeof out->source, "%s",
		row->source ? row->source : row->object);
	if (json_is_array(object) && json_array_size(object) == 0)
		out->known = out->none = true;
	else if (is_of_gpus(row) && group)
		read_group(row, group, out);
	else if (!row->key && json_is_array(object) && !is_of_gpus(row))
		sum_nvme(object, out);
	else if (row->key)
		set_value(json_object_get(object, row->key), out);
}

static const struct row *find_row(const char *name)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

bool fact_is_of_gpus(const char *name)
{
	const struct row *row = find_row(name);

	return row && is_of_gpus(row);
}

bool fact_read_group(const json_t *node, const struct gpu_group *group, const char *name,
	struct fact *out)
{
	const struct row *row = find_row(name);

	memset(out, 0, sizeof *out);
	if (!row)
		return false;
	read_row(node, row, group, out);
	if (!out->known)
		find_cause(node, row, out);
	return true;
}

bool fact_read(const json_t *node, const char *name, struct fact *out)
{
	struct gpu_group groups[GPUS_MAX];

	return fact_read_group(node,
		fact_is_of_gpus(name) && gpus_group(node, groups) ? groups : NULL, name,
		out);
}
