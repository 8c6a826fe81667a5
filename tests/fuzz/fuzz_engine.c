/* fuzz_engine.c - fuzz target: what an agent reads from podman, from registries of images and from
 * containers. The first byte says as what.
 *
 * It checks that what is refused has its reason, and that what is accepted keeps its bounds. */
/* uses: cmd/rnp-register */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/agent/assignment.h"
#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/agent/log_lines.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "cmd/rnp-register/agent/proc.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void manifest(const char *text, size_t size)
{
	struct image_size s;

	if (image_size_read(&s, text, size, "amd64") < 0) {
		must(*err_get()->text);
		return;
	}
	must(s.layers >= 0 && s.layers <= IMAGE_LAYERS_MAX && s.bytes >= 0);
	must(!s.next[0] || strlen(s.next) == IMAGE_DIGEST_MAX - 1);
}

/* A name that is accepted is the same when it is written and read again. */
static void name(const char *text)
{
	struct image_name n, again;
	struct buf out = BUF_INIT;

	if (image_name_parse(&n, text) < 0) {
		must(*err_get()->text);
		return;
	}
	image_name_write(&out, &n);
	must(image_name_parse(&again, buf_text(&out)) == 0);
	must(strcmp(n.host, again.host) == 0 && strcmp(n.path, again.path) == 0 &&
		strcmp(n.digest, again.digest) == 0 && n.local == again.local);
	buf_release(&out);
}

/* The text is never longer than the lines, and no byte behind the last newline is taken. */
static void log_text(const char *text, size_t size)
{
	struct buf out = BUF_INIT;
	size_t taken = log_lines_read(&out, text, size);

	must(taken <= size && out.len <= taken);
	must(!taken || text[taken - 1] == '\n');
	must(!memchr(text + taken, '\n', size - taken));
	buf_release(&out);
}

static void state(const char *text, size_t size)
{
	json_t *o = json_parse_bounded(text, size, JSON_DEPTH_MAX, (size_t)64 << 20,
		"fuzz");
	struct podman_seen seen;
	struct engine_list list = { 0 };
	struct assignment a;

	if (o && podman_state_read(&seen, o) == 0)
		must(strlen(seen.state.id) == ENGINE_ID_MAX - 1 && seen.pid >= 0);
	if (o && podman_list_read(&list, o, "rnp.lease") == 0)
		for (size_t i = 0; i < list.n; i++)
			must(strlen(list.items[i].id) == ENGINE_ID_MAX - 1);
	if (o && assignment_parse(&a, o) == 0)
		must(strlen(a.id) < LEASE_ID_MAX && a.ngpus <= LEASE_GPUS_MAX &&
			a.nblobs <= ASSIGNMENT_BLOBS_MAX && a.rank >= 0);
	engine_list_release(&list);
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct engine_pull pull = { 0 };
	struct proc_rights rights;
	struct proc_map map;
	char *text;

	if (!size)
		return 0;
	text = malloc(size); /* exactly so long: a byte too far is seen */
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 6) {
	case 0:
		manifest(text, size - 1);
		break;
	case 1:
		name(text);
		break;
	case 2:
		log_text(text, size - 1);
		break;
	case 3:
		state(text, size - 1);
		break;
	case 4:
		podman_pull_line(&pull, text, size - 1);
		must(pull.layers >= 0);
		break;
	default:
		proc_rights_read(&rights, text);
		proc_map_read(&map, text);
	}
	err_clear();
	free(text);
	return 0;
}
