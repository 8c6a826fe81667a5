/* gpus.c - see gpus.h. */
#include "cmd/rnp-register/node/gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/hw/gpus.h"
#include "common/json/json.h"

static void set_positive(json_t *obj, const char *key, int64_t v)
{
	if (v > 0)
		json_set_i64(obj, key, v);
}

static void set_filled(json_t *obj, const char *key, const char *text)
{
	if (text && *text)
		json_set_text(obj, key, text);
}

static json_t *gpu_json(const struct nvml_gpu *g)
{
	json_t *v = json_object();

	set_filled(v, "uuid", g->uuid);
	json_set_text(v, "vendor", g->vendor);
	json_set_text(v, "model", g->model);
	set_positive(v, "memory_bytes", g->memory_bytes);
	set_filled(v, "driver", g->driver);
	set_filled(v, "compute_capability", g->compute_capability);
	set_positive(v, "sm_count", g->sm_count);
	set_positive(v, "clock_max_mhz", g->clock_max_mhz);
	set_positive(v, "power_limit_mw", g->power_limit_mw);
	set_positive(v, "pcie_gen", g->pcie_gen);
	set_positive(v, "pcie_width", g->pcie_width);
	if (g->ecc >= 0)
		json_set_bool(v, "ecc", g->ecc);
	if (g->mig >= 0)
		json_set_bool(v, "mig", g->mig);
	return v;
}

/* --- chosen ones -------------------------------------------------------------------------- */

static bool is_number(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)word[i]))
			return false;
	return len > 0 && len < 4;
}

static bool is_meant(const struct nvml_gpu *g, const char *word, size_t len)
{
	if (is_number(word, len))
		return g->slot == atoi(word);
	return strlen(g->uuid) == len && strncasecmp(g->uuid, word, len) == 0;
}

/* Keeps the causes of GPU number from, under its new number; to: -1: none of them. */
static void move_causes(struct hw_causes *why, int from, int to)
{
	char before[16];
	size_t len = (size_t)snprintf(before, sizeof before, "gpus[%d].", from);
	int n = 0;

	for (int i = 0; i < why->n; i++) {
		char rest[sizeof why->at[0].field];

		if (strncmp(why->at[i].field, before, len) == 0) {
			if (to < 0)
				continue;
			snprintf(rest, sizeof rest, "%s", why->at[i].field + len);
			snprintf(why->at[i].field, sizeof why->at[i].field,
				"gpus[%d].%.40s", to, rest);
		}
		if (n != i)
			why->at[n] = why->at[i];
		n++;
	}
	why->n = n;
}

/* Marks the GPUs that the list means. Returns 0, or -1: 64. */
static int mark(bool *meant, const struct nvml_gpu *gpus, int n, const char *chosen,
	struct hw_causes *why)
{
	for (const char *word = chosen;; word++) {
		size_t len = strcspn(word, ",");
		bool found = false;

		if (!is_number(word, len) &&
			(len < 8 || strncasecmp(word, "GPU-", 4) != 0))
			return err_set(EX_USAGE,
				"--gpus: '%.*s' is neither a number nor a GPU-... of a GPU",
				(int)(len < 60 ? len : 60), word);
		for (int i = 0; i < n; i++)
			if (is_meant(&gpus[i], word, len))
				meant[i] = found = true;
		if (!found) {
			prog_warn("--gpus: there is no GPU %.*s that answers", (int)len,
				word);
			hw_cause(why, "gpus", "no GPU %.*s of --gpus answers",
				(int)(len < 60 ? len : 60), word);
		}
		word += len;
		if (!*word)
			return 0;
	}
}

/* Leaves only the chosen GPUs. Returns how many, or -1: 64. */
static int choose(struct nvml_gpu *gpus, int n, const char *chosen, struct hw_causes *why)
{
	bool meant[HW_GPUS_MAX] = { false };
	int kept = 0;

	if (mark(meant, gpus, n, chosen, why) < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		move_causes(why, i, meant[i] ? kept : -1);
		if (meant[i])
			gpus[kept++] = gpus[i];
	}
	return kept;
}

int node_gpus_add(json_t *node, const char *chosen, struct hw_causes *why)
{
	static struct nvml_gpu gpus[HW_GPUS_MAX];
	int n = hw_gpus_read(gpus, HW_GPUS_MAX, why), kept = n;
	json_t *list;

	if (chosen)
		kept = choose(gpus, n, chosen, why);
	if (chosen && kept < 0)
		return -1;
	/* none of those that were meant answers: what there is, is not known */
	if (n < 0 || (chosen && !kept && n))
		return 0;
	list = json_array();
	for (int i = 0; i < kept; i++)
		json_push(list, gpu_json(&gpus[i]));
	json_set(node, "gpus", list);
	return 0;
}
