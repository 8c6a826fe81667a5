/* lease_artifacts.c - what a job wants kept: the container puts it into its folder "out"
 * (start.sh), and here it is packed and sent; what was kept of a rank before is given to its next
 * container. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/pack/pack.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/err.h"
#include "common/json/json.h"

static const json_t *artifacts_of(const struct lease *l)
{
	return json_object_get(l->now.booking, "artifacts");
}

void lease_artifact_lines(struct buf *paths, struct buf *every, const struct lease *l)
{
	const json_t *list = json_object_get(artifacts_of(l), "paths"), *path,
		     *seconds = json_object_get(artifacts_of(l), "every_s");
	size_t i;

	json_array_foreach((json_t *)list, i, path) {
		const char *text = json_string_value(path);

		if (text && *text && !strchr(text, '\n'))
			buf_addf(paths, "%s\n", text);
	}
	if (json_is_integer(seconds))
		buf_addf(every, "%lld\n", (long long)json_integer_value(seconds));
}

const char *lease_artifacts_before(const struct lease *l)
{
	const char *name = json_string_value(json_object_get(l->entry, "artifacts"));

	return artifacts_of(l) && name && strlen(name) == 64 ? name : NULL;
}

/* Packs the directory that is open at fd, whatever its path has become, and sends it. */
static int send_directory(struct lease *l, int fd, char name[65])
{
	const struct pack_config config = { .rules = false };
	const struct agent_config *c = l->agent->c;
	struct transfer t = { .http = &l->http,
		.base = c->registry,
		.ca = c->ca,
		.key = c->key,
		.cluster = l->row.cluster,
		.abort = &l->agent->abort };
	struct pack p = { 0 };
	char path[40];
	int rc;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (pack_directory(&p, path, &config) < 0)
		return -1;
	rc = transfer_upload(&t, &p);
	if (rc == 0)
		sodium_bin2hex(name, 65, p.sha256, sizeof p.sha256);
	pack_release(&p);
	return rc;
}

int lease_send_artifacts(struct lease *l, char name[65])
{
	struct buf out = BUF_INIT;
	int64_t n = sandbox_collected(&l->agent->place, l->row.id);
	int dir = -1, fd = -1, rc = 0;

	name[0] = '\0';
	if (!artifacts_of(l) || n == l->collected)
		return 0;
	sandbox_out(&out, &l->agent->place, l->row.id);
	dir = open(buf_text(&out), O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* the folder is the container's: it may have become a link to anywhere */
	if (dir >= 0)
		fd = openat(dir, "artifacts",
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		rc = send_directory(l, fd, name);
	else if (errno != ENOENT)
		rc = err_sys(EX_IOERR, "cannot read the artifacts");
	if (rc == 0)
		l->collected = n;
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	buf_release(&out);
	return rc;
}
