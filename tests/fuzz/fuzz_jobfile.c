/* fuzz_jobfile.c - fuzz target: a stranger's job file, in YAML or JSON.
 *
 * It is read as it is, and with variables and what SkyPilot's files have for clouds left out. It
 * checks that a refusal is one line with code 65; that what is accepted fits its schema, and its
 * wishes that of a job; and that no record has the value of a secret. */
/* uses: cmd/rnp-register */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/customer/jobfile.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define SECRET "k7Qz0vXw"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void must_hold(const json_t *task)
{
	struct buf text = BUF_INIT;
	json_t *wish;
	size_t i;

	must(schema_check(task, "task", "rnp.task") == 0);
	json_array_foreach(json_object_get(task, "wishes"), i, wish) {
		if (schema_check(wish, "wish", "rnp.job") < 0)
			/* two capitals that are no country are seen by whoever gets the wish */
			must(strstr(err_get()->text, "country") != NULL);
	}
	json_write(&text, task);
	must(strstr(text.data, SECRET) == NULL);
	buf_release(&text);
}

static void read_with(const char *text, size_t size, const struct job_options *options)
{
	struct jobfile job = JOBFILE_INIT;

	err_clear();
	if (jobfile_read(&job, text, size, "fuzz.yaml", options) == 0) {
		must_hold(job.task);
	} else {
		must(err_get()->code == EX_DATAERR && err_get()->text[0] &&
			!strchr(err_get()->text, '\n') && !job.task);
	}
	jobfile_release(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const drop[] = { "infra", "cloud", "region", "zone",
		"instance_type", "accelerator_args", "service", "stores" };
	static const struct job_given envs[] = { { "A", "x" }, { "B", "${A}:8" } },
				      secrets[] = { { "S", SECRET } };
	const struct job_options bare = { 0 };
	const struct job_options more = { envs, secrets, 2, 1, drop, 8 };
	char *text = malloc(size + 1);

	/* a secret that the file itself spells out in another place is no secret */
	if (!text || memmem(data, size, SECRET, strlen(SECRET))) {
		free(text);
		return 0;
	}
	memcpy(text, data, size);
	text[size] = '\0';
	read_with(text, size, &bare);
	read_with(text, size, &more);
	free(text);
	return 0;
}
