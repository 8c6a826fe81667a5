/* lease.c - does by hand what a node's agent does for a lease, one step a call, so that tests see
 * each step and can stop between them: `lease volume open DIR KEEP ID BYTES`. Errors are one line,
 * and the exit code that the agent would see. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/engine.h"
#include "cmd/rnp-register/agent/images.h"
#include "cmd/rnp-register/agent/network.h"
#include "cmd/rnp-register/agent/podman.h"
#include "cmd/rnp-register/agent/volume.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define WINDOW (1UL << 20)

static int64_t number(const char *text)
{
	return strtoll(text, NULL, 10);
}

/* Takes a text apart at its spaces. */
static size_t words(char *text, const char **out, size_t most)
{
	size_t n = 0;

	for (char *word; text && n < most && (word = strsep(&text, " "));)
		if (*word)
			out[n++] = word;
	return n;
}

static int report(int rc)
{
	if (rc < 0)
		fprintf(stderr, "lease: %s\n", err_get()->text);
	return rc < 0 ? err_get()->code : 0;
}

/* --- volumes ------------------------------------------------------------------------------ */

static void show(const char *id, enum volume_state state, int64_t size_bytes,
	void *context)
{
	static const char *const names[] = { "open", "shut", "held" };

	(void)context;
	printf("%s %s %" PRId64 "\n", id, names[state], size_bytes);
}

static int volume_show(const struct volume_place *place, const char *id)
{
	struct volume_use use;
	int rc = volume_use(place, id, &use);

	if (rc == 0)
		printf("{\"size\":%" PRId64 ",\"free\":%" PRId64 ",\"files\":%" PRId64
		       ",\"free_files\":%" PRId64 ",\"read_only\":%s}\n",
			use.size_bytes, use.free_bytes, use.files, use.free_files,
			use.read_only ? "true" : "false");
	return rc;
}

static int volume_show_room(const struct volume_place *place)
{
	int64_t bytes;
	int rc = volume_room(place, &bytes);

	if (rc == 0)
		printf("%" PRId64 "\n", bytes);
	return rc;
}

/* Bytes that are known here and stand nowhere: what a volume takes for random. */
static unsigned char known_byte(size_t i)
{
	return (unsigned char)(37 * i + (i >> 3) * 11 + 5);
}

static void known_bytes(void *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)out)[i] = known_byte(i);
}

static const char *known_name(void)
{
	return "known";
}

/* Not the first ones: libsodium takes some for itself. */
static bool is_known(const unsigned char *at)
{
	size_t i = 0;

	while (i < 16 && at[i] == known_byte(32 + i))
		i++;
	return i == 16;
}

/* How often 16 of these bytes lie in what this process may write to, but for where it
 * looks. */
static int times_in_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int memory = open("/proc/self/mem", O_RDONLY), times = 0;
	unsigned char *all = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long begin, end;
	char line[512], mode[8];

	while (maps && fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) != 3 ||
			mode[1] != 'w' ||
			((unsigned long)all >= begin && (unsigned long)all < end))
			continue;
		for (ssize_t n; begin < end; begin += (unsigned long)n) {
			size_t size = end - begin < WINDOW ? end - begin : WINDOW;

			n = pread(memory, all, size, (off_t)begin);
			if (n <= 16)
				break;
			for (ssize_t i = 0; i + 16 <= n; i++)
				times += is_known(all + i);
		}
	}
	if (maps)
		fclose(maps);
	close(memory);
	munmap(all, WINDOW);
	return times;
}

/* Opens a volume with a key that is known, and prints how often the key was in memory while a copy
 * was there on purpose, and how often it is there otherwise. */
static int volume_open_watched(const struct volume_place *place, const char *id,
	const char *size)
{
	static randombytes_implementation known = { .implementation_name = known_name,
		.buf = known_bytes };
	unsigned char *copy;
	int rc, with;

	randombytes_set_implementation(&known);
	rc = volume_open(place, id, number(size));
	copy = xmalloc(64);
	known_bytes(copy, 64);
	with = times_in_memory();
	memset(copy, 0, 64);
	printf("%d %d\n", with, times_in_memory());
	free(copy);
	return rc;
}

struct names {
	char **names;
	int n;
};

static bool is_named(const char *id, void *context)
{
	const struct names *live = context;

	for (int i = 0; i < live->n; i++)
		if (strcmp(live->names[i], id) == 0)
			return true;
	return false;
}

static int volume_clean_all(const struct volume_place *place, int n, char **live)
{
	struct names names = { live, n };
	int closed, rc = volume_clean(place, is_named, &names, 200, &closed);

	printf("%d\n", closed);
	return rc;
}

/* ACTION DIR KEEP [ID ...] */
static int volume(int n, char **args)
{
	struct volume_place place = { .dir = args[1], .keep_bytes = number(args[2]) };
	const char *action = args[0], *id = n > 3 ? args[3] : "";

	if (strcmp(action, "probe") == 0)
		return volume_probe(&place);
	if (strcmp(action, "room") == 0)
		return volume_show_room(&place);
	if (strcmp(action, "list") == 0)
		return volume_each(&place, show, NULL);
	if (strcmp(action, "clean") == 0)
		return volume_clean_all(&place, n - 3, args + 3);
	if (strcmp(action, "open") == 0 && n == 5)
		return volume_open(&place, id, number(args[4]));
	if (strcmp(action, "open-watched") == 0 && n == 5)
		return volume_open_watched(&place, id, args[4]);
	if (strcmp(action, "adopt") == 0)
		return volume_adopt(&place, id);
	if (strcmp(action, "use") == 0)
		return volume_show(&place, id);
	if (strcmp(action, "close") == 0 && n == 5)
		return volume_close(&place, id, number(args[4]));
	return err_set(EX_USAGE, "no such action");
}

/* --- networks ----------------------------------------------------------------------------- */

static void show_id(const char *id, void *context)
{
	(void)context;
	printf("%s\n", id);
}

static int network_clean_all(const struct network_place *place, int n, char **live)
{
	struct names names = { live, n };
	int closed, rc = network_clean(place, is_named, &names, &closed);

	printf("%d\n", closed);
	return rc;
}

/* ACTION DIR [ID ...]. $POOL has addresses and bits, as 100.127.128.0/17; $RESOLVERS and
 * $BLOCKED are words. */
static int network(int n, char **args)
{
	const char *resolvers[8], *blocked[8], *action = args[0],
					       *id = n > 2 ? args[2] : "";
	struct network_place place = { .dir = args[1],
		.pool = NETWORK_POOL,
		.pool_bits = NETWORK_POOL_BITS,
		.resolvers = resolvers,
		.blocked = blocked };
	const char *pool = getenv("POOL");
	struct in_addr in;

	place.nresolvers = words(getenv("RESOLVERS"), resolvers, 8);
	place.nblocked = words(getenv("BLOCKED"), blocked, 8);
	if (pool && strchr(pool, '/')) {
		place.pool_bits = atoi(strchr(pool, '/') + 1);
		*strchr((char *)pool, '/') = '\0';
		inet_pton(AF_INET, pool, &in);
		place.pool = ntohl(in.s_addr);
	}
	if (strcmp(action, "probe") == 0)
		return network_probe(&place);
	if (strcmp(action, "refresh") == 0)
		return network_refresh(&place);
	if (strcmp(action, "list") == 0)
		return network_each(&place, show_id, NULL);
	if (strcmp(action, "clean") == 0)
		return network_clean_all(&place, n - 2, args + 2);
	if (strcmp(action, "open") == 0 && n == 4)
		return network_open(&place, id, number(args[3]));
	if (strcmp(action, "adopt") == 0 && n == 4)
		return network_adopt(&place, id, number(args[3]));
	if (strcmp(action, "peers") == 0)
		return network_set_peers(&place, id, (const char *const *)args + 3,
			(size_t)n - 3);
	if (strcmp(action, "close") == 0)
		return network_close(&place, id);
	return err_set(EX_USAGE, "no such action");
}

/* --- containers --------------------------------------------------------------------------- */

/* BASE has vol/, net/ and images/; /run/NAME, where NAME is that of BASE, what podman has in
 * memory. */
struct node {
	struct buf root, run, images, netns;
};

static void node_init(struct node *c, const char *base, const char *id)
{
	*c = (struct node){ 0 };
	buf_addf(&c->images, "%s/images", base);
	buf_addf(&c->run, "/run/%s/%s", strrchr(base, '/') + 1, id);
	buf_addf(&c->netns, "%s/net/%s", base, id);
	if (strcmp(id, "images") == 0)
		buf_adds(&c->root, c->images.data);
	else
		buf_addf(&c->root, "%s/vol/%s/data/podman", base, id);
}

static void node_release(struct node *c)
{
	buf_release(&c->root);
	buf_release(&c->run);
	buf_release(&c->images);
	buf_release(&c->netns);
}

static int64_t limit(const char *name, int64_t otherwise)
{
	return getenv(name) ? number(getenv(name)) : otherwise;
}

/* Image, and what sh -c is to run; $USERS is the first of its users, $MEMORY its bytes ...
 * Prints the container's id. */
static int container_start(struct engine *e, const struct node *c, const char *lease,
	char **args)
{
	const char *command[] = { "/bin/sh", "-c", args[1], NULL };
	char label[128], id[ENGINE_ID_MAX] = "";
	const char *labels[] = { label, "rnp.booking=none", NULL };
	struct engine_spec spec = { .name = lease,
		.image = args[0],
		.command = command,
		.labels = labels,
		.netns = access(c->netns.data, F_OK) == 0 ? c->netns.data : NULL,
		.first_id = (uint32_t)limit("USERS", 3000000),
		.ids = 65536,
		.memory_bytes = limit("MEMORY", 64 << 20),
		.shm_bytes = 8 << 20,
		.cpu_millis = limit("CPU", 1000),
		.pids = limit("PIDS", 64),
		.files = 256,
		.log_bytes_max = 1 << 20 };
	int rc;

	snprintf(label, sizeof label, "rnp.lease=%s", lease);
	rc = e->ops->create(e, &spec, id);
	if (rc == 0)
		rc = e->ops->start(e, id);
	printf("%s\n", id);
	return rc;
}

static int container_state(struct engine *e, const char *id, int64_t wait_ms)
{
	static const char *const names[] = { "created", "running", "exited", "lost" };
	struct engine_state s = { 0 };
	int rc = e->ops->stat(e, id, wait_ms, &s);
	json_t *o = json_pack("{s:s,s:i,s:i,s:b,s:s,s:s}", "status", names[s.status],
		"exit", s.exit, "pid", (int)s.pid, "oom", s.oom, "cause", s.cause, "log",
		s.log);

	if (rc == 0)
		json_dumpf(o, stdout, 0);
	json_decref(o);
	return rc;
}

static int container_log(struct engine *e, const char *id)
{
	struct engine_log at = ENGINE_LOG_INIT;
	struct buf out = BUF_INIT;
	size_t before;
	int rc;

	do {
		before = out.len;
		rc = e->ops->logs(e, id, &at, 1 << 16, &out);
	} while (rc == 0 && out.len > before);
	fwrite(buf_text(&out), 1, out.len, stdout);
	engine_log_close(&at);
	buf_release(&out);
	return rc;
}

/* Runs a command in the container, as a session does, and prints what it says. */
static int container_exec(struct engine *e, const char *id, const char *script)
{
	const char *command[] = { "/bin/sh", "-c", script, NULL };
	struct engine_exec x = { .command = command,
		.output_max = 1 << 20,
		.timeout_ms = 60000 };
	int rc = e->ops->exec(e, id, &x);

	fwrite(buf_text(&x.output), 1, x.output.len, stdout);
	buf_release(&x.output);
	return rc;
}

/* ACTION BASE LEASE [ARGUMENT ...]; the lease "images" is the node's store. */
static int container(int n, char **args)
{
	const char *action = args[0], *lease = args[2];
	struct engine *e;
	struct node c;
	int rc;

	node_init(&c, args[1], lease);
	e = podman_open(&(struct podman_config){ .root = c.root.data,
		.run = c.run.data,
		.images = strcmp(lease, "images") == 0 ? NULL : c.images.data,
		.netns = access(c.netns.data, F_OK) == 0 ? c.netns.data : NULL });
	if (!e)
		rc = -1;
	else if (strcmp(action, "pull") == 0 && n == 4)
		rc = e->ops->pull(e,
			&(struct engine_pull_call){ .image = args[3], .ids = 65536 });
	else if (strcmp(action, "start") == 0 && n == 5)
		rc = container_start(e, &c, lease, args + 3);
	else if (strcmp(action, "state") == 0 && n == 5)
		rc = container_state(e, args[3], number(args[4]));
	else if (strcmp(action, "log") == 0 && n == 4)
		rc = container_log(e, args[3]);
	else if (strcmp(action, "stop") == 0 && n == 5)
		rc = e->ops->stop(e, args[3], number(args[4]));
	else if (strcmp(action, "exec") == 0 && n == 5)
		rc = container_exec(e, args[3], args[4]);
	else if (strcmp(action, "remove") == 0 && n == 4)
		rc = e->ops->remove(e, args[3]);
	else
		rc = strcmp(action, "quit") == 0 ? 0 :
						   err_set(EX_USAGE, "no such action");
	if (strcmp(action, "quit") == 0)
		podman_quit(e);
	else
		podman_close(e);
	node_release(&c);
	return rc;
}

/* --- images ------------------------------------------------------------------------------- */

static void image_show(void *ctx, const char *root, const char *name, int64_t used_ms)
{
	(void)ctx, (void)used_ms;
	printf("%s %s\n", root, name);
}

/* pull BASE BYTES REFERENCE, list BASE BYTES: the node's images, on a disk of so many bytes; leases
 * would be in BASE/leases. */
static int images(int n, char **args)
{
	struct buf dir = BUF_INIT, leases = BUF_INIT, run = BUF_INIT;
	struct images s = { 0 };
	struct sandbox_place place = { 0 };
	struct images_config c = { .size_bytes = number(args[2]),
		.private_too = !getenv("PUBLIC_IMAGES") };
	int rc;

	buf_addf(&dir, "%s/kept", args[1]);
	buf_addf(&leases, "%s/leases", args[1]);
	buf_addf(&run, "/run/%s/kept", strrchr(args[1], '/') + 1);
	c.dir = dir.data;
	c.run = run.data;
	place.run = leases.data;
	rc = images_open(&s, &c, &place);
	if (rc == 0 && strcmp(args[0], "list") == 0)
		images_each(&s, image_show, NULL);
	else if (rc == 0 && n == 4)
		rc = images_pull(&s,
			&(struct engine_pull_call){ .image = args[3], .ids = 65536 });
	images_close(&s);
	buf_release(&dir);
	buf_release(&leases);
	buf_release(&run);
	return rc;
}

int main(int n, char **args)
{
	if (n >= 5 && strcmp(args[1], "volume") == 0)
		return report(volume(n - 2, args + 2));
	if (n >= 4 && strcmp(args[1], "network") == 0)
		return report(network(n - 2, args + 2));
	if (n >= 5 && strcmp(args[1], "container") == 0)
		return report(container(n - 2, args + 2));
	if (n >= 5 && strcmp(args[1], "images") == 0)
		return report(images(n - 2, args + 2));
	fprintf(stderr,
		"usage: lease volume ACTION DIR KEEP ... | network ACTION DIR ... | "
		"container ACTION BASE LEASE ... | images ACTION BASE BYTES ...\n");
	return EX_USAGE;
}
