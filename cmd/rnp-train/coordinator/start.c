/* start.c - a run over a network that goes on where a run on one machine ended: with the
 * parameters, AdamW's state, schedule and place in the text of its checkpoint. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/wire/filehash.h"
#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/lm/model/safetensors.h"

/* Appends tensors of a checkpoint, in the order of the layout, to to; prefix: "", "adamw.m.". */
static int copy_tensors(const struct lm_config *c, const struct safetensors *from,
	const char *prefix, float *to)
{
	char name[LM_NAME_BYTES_MAX + 16], own[LM_NAME_BYTES_MAX];

	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		const struct lm_tensor *t;
		struct lm_place place;

		lm_layout_at(c, i, &place);
		lm_layout_hf_name(own, &place);
		snprintf(name, sizeof name, "%s%s", prefix, own);
		t = safetensors_find(from, name);
		if (!t || t->type != LM_F32 || t->count != place.count)
			return err_set(EX_DATAERR,
				"the checkpoint lacks '%s' of this model", name);
		memcpy(to, t->data, place.count * sizeof *to);
		to += place.count;
	}
	return 0;
}

/* m and v, one after the other, as bf16. */
static int write_state(struct coordinator *g, const struct safetensors *from)
{
	struct flatfile both = FLATFILE_INIT;
	uint64_t n = g->run.parameters;
	char *path = coordinate_path(g, "state.rnpg");
	int rc = flatfile_make(&both, g->dir, "adam", 2 * n);

	if (rc == 0)
		rc = copy_tensors(&g->run.config, from, "adamw.m.", both.x);
	if (rc == 0)
		rc = copy_tensors(&g->run.config, from, "adamw.v.", both.x + n);
	if (rc == 0)
		rc = container_write(&g->cpu, COORDINATE_STATE_METHOD, both.x, NULL,
			2 * n, path, NULL);
	if (rc == 0)
		rc = filehash_blake2b(path, g->run.state);
	flatfile_close(&both);
	free(path);
	return rc;
}

static int check_place(struct coordinator *g, const struct lm_progress *at,
	const char *path)
{
	char hex[PROTOCOL_HEX];

	protocol_hex(hex, at->data);
	if (strcmp(hex, g->run.digest) != 0)
		return err_set(EX_USAGE, "%s: was made with another text than '%s'", path,
			g->o.data);
	if ((g->o.given("seed") && at->seed != g->run.seed) ||
		(g->o.given("length") && at->length != g->run.length))
		return err_set(EX_USAGE, "%s: was made with --seed %llu --length %u",
			path, (unsigned long long)at->seed, at->length);
	return 0;
}

int coordinate_start(struct coordinator *g)
{
	struct buf path = BUF_INIT;
	struct lm_progress at;
	struct safetensors *from = NULL;
	json_t *texts = NULL;
	const char *adam;
	int rc = 0;

	if (!rundir_resumes(g->o.model))
		return 0;
	buf_addf(&path, "%s/%s", g->o.model, RUNDIR_CHECKPOINT);
	if (lm_checkpoint_peek(path.data, &at, &texts) < 0 ||
		check_place(g, &at, path.data) < 0 ||
		safetensors_open(&from, path.data) < 0) {
		rc = -1;
		goto out;
	}
	adam = json_string_value(json_object_get(texts, "optimiser_steps"));
	g->run.seed = at.seed;
	g->run.length = at.length;
	g->run.first_step = at.steps;
	g->run.first_sequence = at.sequences;
	g->run.adam_steps = adam ? strtoull(adam, NULL, 10) : at.steps;
	rc = write_state(g, from);
out:
	safetensors_close(from);
	json_decref(texts);
	buf_release(&path);
	return rc < 0 ? err_add("going on with a checkpoint") : 0;
}
