/* fit_chip.c - the figures of a chip that the fit uses: fit_numbers of fit.h, from the
 * table of models. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cmd/rnp-price/quote/fit.h"

#define YEAR_NEWEST 2025

/* The launch year of chips whose names begin with a prefix; the first match counts. */
static const struct {
	const char *prefix;
	int year;
	bool server;
} ages[] = { { "RTX PRO 6000 S", 2025, true }, { "RTX PRO", 2025, false },
	{ "RTX 50", 2025, false }, { "RTX 5000 Ada", 2023, false },
	{ "B300", 2025, true }, { "B200", 2024, true }, { "GB200", 2024, true },
	{ "GH200", 2023, true }, { "H200", 2024, true }, { "H20", 2023, true },
	{ "H100", 2022, true }, { "H800", 2023, true }, { "L40", 2022, true },
	{ "L20", 2023, true }, { "L4", 2023, true }, { "RTX 4", 2022, false },
	{ "RTX 6000 Ada", 2022, false }, { "RTX 5880", 2024, false },
	{ "RTX 2000 Ada", 2024, false }, { "RTX A", 2021, false }, { "A100", 2020, true },
	{ "A800", 2022, true }, { "A40", 2020, true }, { "A30", 2021, true },
	{ "A16", 2021, true }, { "A10", 2021, true }, { "A2", 2021, true },
	{ "RTX 3", 2020, false }, { "RTX 2", 2018, false }, { "GTX 16", 2019, false },
	{ "GTX 10", 2016, false }, { "Titan RTX", 2018, false }, { "Titan", 2017, false },
	{ "Quadro", 2018, false }, { "V100", 2017, true }, { "T4", 2018, true },
	{ "P100", 2016, true }, { "P4", 2016, true }, { "MI355", 2025, true },
	{ "MI325", 2024, true }, { "MI300", 2023, true }, { "MI250", 2021, true },
	{ "MI210", 2021, true }, { "MI100", 2020, true }, { "RX 7", 2022, false },
	{ "RX 6", 2020, false }, { NULL, 2020, false } };

/* Returns a figure of a model: its own, else the geometric mean of its family's. */
static double figure(const struct gpu_model *m, size_t offset)
{
	const struct gpu_model *table;
	double sum = 0;
	size_t n;
	long count = 0;
	int64_t own;

	memcpy(&own, (const char *)m + offset, sizeof own);
	if (own)
		return log((double)own);
	table = gpu_table(&n);
	for (size_t i = 0; i < n; i++) {
		memcpy(&own, (const char *)&table[i] + offset, sizeof own);
		if (own && strcmp(table[i].family, m->family) == 0) {
			sum += log((double)own);
			count++;
		}
	}
	return count ? sum / (double)count : -1;
}

bool fit_numbers(double x[FIT_NUMBERS], const struct gpu_model *m, int64_t memory_bytes,
	int64_t gpu_count, bool spot)
{
	size_t a = 0;
	double memory = figure(m, offsetof(struct gpu_model, memory_bytes));

	if (memory < 0 && memory_bytes > 0)
		memory = log((double)memory_bytes);
	x[FIT_ONE] = 1;
	x[FIT_F32] = figure(m, offsetof(struct gpu_model, f32_gflops));
	x[FIT_TENSOR] = figure(m, offsetof(struct gpu_model, tensor_gflops));
	x[FIT_BANDWIDTH] = figure(m, offsetof(struct gpu_model, bandwidth_mbytes));
	/* some makers state only one of the two: a tensor core does at least twice the f32 rate */
	if (x[FIT_F32] < 0 && x[FIT_TENSOR] >= 0)
		x[FIT_F32] = x[FIT_TENSOR] - log(16);
	if (x[FIT_TENSOR] < 0 && x[FIT_F32] >= 0)
		x[FIT_TENSOR] = x[FIT_F32] + (m->tensor_cores ? log(2) : 0);
	if (memory < 0 || x[FIT_F32] < 0 || x[FIT_BANDWIDTH] < 0)
		return false;
	while (ages[a].prefix &&
		strncmp(m->name, ages[a].prefix, strlen(ages[a].prefix)) != 0)
		a++;
	x[FIT_MEMORY] = memory - log(1 << 30);
	x[FIT_F32] -= log(1000);
	x[FIT_TENSOR] -= log(1000);
	x[FIT_BANDWIDTH] -= log(1000);
	x[FIT_COUNT] = log((double)gpu_count);
	x[FIT_SPOT] = spot;
	x[FIT_YEARS] = YEAR_NEWEST - ages[a].year;
	x[FIT_SERVER] = ages[a].server;
	return true;
}
