/* metrics.c - writes records in Prometheus' text format. */
#include "cmd/rnp-bench/figures/metrics.h"

#include <stdbool.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"

/* The name of a metric contains its unit, and Prometheus uses base units. */
static const struct unit {
	const char *unit, *name;
	double factor;
	const char *help;
} units[] = {
	{ "FLOP/s", "operations_per_second", 1, "arithmetic operations a second" },
	{ "OP/s", "operations_per_second", 1, NULL },
	{ "B/s", "bytes_per_second", 1, "bytes a second" },
	{ "1/s", "events_per_second", 1, "events a second (hashes, reads, requests)" },
	{ "tokens/s", "tokens_per_second", 1, "tokens a second" },
	{ "ns", "latency_seconds", 1e-9, "time of one operation" },
	{ "us", "latency_seconds", 1e-6, NULL },
	{ "ms", "latency_seconds", 1e-3, NULL },
	{ "s", "latency_seconds", 1, NULL },
	{ "B", "size_bytes", 1, "sizes" },
	{ "ppm", "ratio", 1e-6, "shares of 1" },
};
#define UNITS (sizeof units / sizeof *units)

static const struct {
	const char *field, *name, *help;
} values[] = { { "median", "", "Median of the" },
	{ "low", "low_", "Lower end of the 95% interval of the" },
	{ "high", "high_", "Upper end of the 95% interval of the" } };

static const struct {
	const char *field, *name;
	double factor;
	const char *help;
} others[] = {
	{ "samples", "samples", 1, "How many samples the interval was made from." },
	{ "throttled", "throttled", 1,
		"1 when the device gave less than it promised meanwhile." },
	{ "clock_mhz", "clock_hertz", 1e6, "Clock of the device, median." },
	{ "temperature_c", "temperature_celsius", 1, "Temperature of the GPU, highest." },
	{ "other_users", "other_users", 1, "Other processes on the GPU, most." },
};

static const char *text(const json_t *record, const char *key)
{
	const char *v = json_string_value(json_object_get(record, key));

	return v ? v : "";
}

static void add_label(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s%s=\"", out->data[out->len - 1] == '{' ? "" : ",", name);
	for (; *value; value++) {
		if (*value == '\n')
			buf_adds(out, "\\n");
		else {
			if (*value == '\\' || *value == '"')
				buf_addc(out, '\\');
			buf_addc(out, *value);
		}
	}
	buf_addc(out, '"');
}

static bool same_test(const json_t *a, const json_t *b)
{
	return strcmp(text(a, "suite"), text(b, "suite")) == 0 &&
		strcmp(text(a, "test"), text(b, "test")) == 0 &&
		strcmp(text(a, "device"), text(b, "device")) == 0;
}

/* Records of one test (with different sizes, for example) are distinguished by their
 * parameters. */
static bool is_twice(const json_t *records, const json_t *record)
{
	size_t i;
	json_t *r;

	json_array_foreach(records, i, r)
		if (r != record && same_test(r, record))
			return true;
	return false;
}

static void add_sample(struct buf *out, const char *name, const json_t *records,
	const json_t *record, double value)
{
	buf_addf(out, "%s{", name);
	add_label(out, "suite", text(record, "suite"));
	add_label(out, "test", text(record, "test"));
	if (*text(record, "device"))
		add_label(out, "device", text(record, "device"));
	if (is_twice(records, record)) {
		struct buf params = BUF_INIT;

		if (canon_write(&params, json_object_get(record, "params")) < 0)
			err_clear();
		add_label(out, "params", buf_text(&params));
		buf_release(&params);
	}
	buf_addf(out, "} %.15g\n", value);
}

static void add_head(struct buf *out, const char *name, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

/* Writes all records in units of this name, with the head before the first. */
static void add_figures(struct buf *out, const json_t *records, size_t unit, size_t value)
{
	bool begun = false;
	char name[64], help[160];
	size_t i;
	json_t *r;

	snprintf(name, sizeof name, "rnp_bench_%s%s", values[value].name,
		units[unit].name);
	snprintf(help, sizeof help, "%s measured %s.", values[value].help,
		units[unit].help);
	json_array_foreach(records, i, r) {
		const struct unit *u = units;

		while (u < units + UNITS && strcmp(u->unit, text(r, "unit")) != 0)
			u++;
		if (u == units + UNITS || strcmp(u->name, units[unit].name) != 0)
			continue;
		if (!begun)
			add_head(out, name, help);
		begun = true;
		add_sample(out, name, records, r,
			u->factor *
				json_number_value(
					json_object_get(r, values[value].field)));
	}
}

static void add_other(struct buf *out, const json_t *records, size_t which)
{
	bool begun = false;
	char name[64];
	size_t i;
	json_t *r;

	snprintf(name, sizeof name, "rnp_bench_%s", others[which].name);
	json_array_foreach(records, i, r) {
		const json_t *v = json_object_get(r, others[which].field);

		if (!v)
			continue;
		if (!begun)
			add_head(out, name, others[which].help);
		begun = true;
		add_sample(out, name, records, r,
			json_is_boolean(v) ? json_is_true(v) :
					     json_number_value(v) * others[which].factor);
	}
}

/* Appends the records (an array of rnp.bench) in Prometheus' text format 0.0.4. */
static void metrics_write(struct buf *out, const json_t *records)
{
	for (size_t u = 0; u < UNITS; u++)
		for (size_t v = 0; units[u].help && v < sizeof values / sizeof *values;
			v++)
			add_figures(out, records, u, v);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		add_other(out, records, i);
	add_head(out, "rnp_bench_last_run_timestamp_seconds",
		"When these figures were measured, in Unix time.");
	buf_addf(out, "rnp_bench_last_run_timestamp_seconds %.3f\n",
		(double)clock_now_ms() / 1e3);
}

int metrics_save(const json_t *records, const char *path)
{
	struct buf out = BUF_INIT;
	int rc;

	metrics_write(&out, records);
	rc = io_replace(path, out.data, out.len, 0644);
	buf_release(&out);
	return rc;
}
