/* work.c - rnp-register work: runs what customers have booked on this node, in containers. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent.h"
#include "cmd/rnp-register/agent/cell.h"
#include "cmd/rnp-register/agent/ready.h"
#include "cmd/rnp-register/agent/sell.h"
#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/notify.h"
#include "common/cli/prog.h"
#include "common/hw/gpus.h"
#include "common/record/key.h"
#include "common/registry/client.h"

#define GRACE_MS     30000
#define CDI_DEFAULT  "nvidia.com/gpu"
#define MEMORY_KEPT  (INT64_C(1) << 30) /* of the machine, for itself */
#define MEMORY_LEAST (INT64_C(256) << 20)
#define DISK_DEFAULT 2 /* half of what is free */

static const char *registry, *key_path, *passphrase_file, *ca_file, *state_to;
static const char *dir = SELL_DIR, *run_dir = SELL_RUN, *cdi = CDI_DEFAULT;
static bool spot, files, private_images;
static int64_t part_gpus, max_hours;
static int64_t cpu_cores, memory_bytes, disk_bytes, images_bytes, up_bits,
	grace_ms = GRACE_MS;
static struct opt_list resolvers;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	OPT(TEXT, "dir", &dir, "D", "images, disks, journal (default " SELL_DIR ")"),
	OPT(TEXT, "run-dir", &run_dir, "D", "sockets, on a tmpfs (default " SELL_RUN ")"),
	OPT(TEXT, "state-to", &state_to, "F", "file for heartbeat --state-from"),
	OPT_IN(I64, "cpu-cores", &cpu_cores, "N", 1, 65536,
		"for all leases together (default all)"),
	OPT(SIZE, "memory", &memory_bytes, "S", "likewise (default all but 1GiB)"),
	OPT(SIZE, "disk", &disk_bytes, "S", "likewise (default half of what is free)"),
	OPT(SIZE, "images", &images_bytes, "S",
		"for images (default a quarter of what is free, up to 64GiB)"),
	OPT_SWITCH("private-images", &private_images,
		"images may come from private addresses"),
	OPT_IN(I64, "up-bps", &up_bits, "N", 1, INT64_C(1) << 50,
		"bits a second that a lease may send (default no bound)"),
	OPT_IN(I64, "part-gpus", &part_gpus, "N", 1, 64,
		"sell its GPUs in parts of so many (default all together)"),
	OPT_IN(I64, "max-hours", &max_hours, "N", 1, 876000,
		"of one booking (default any)"),
	OPT_SWITCH("spot", &spot, "leases may be interrupted"),
	OPT(LIST, "resolver", &resolvers, "A",
		"server of names for containers; may be repeated"),
	OPT(TEXT, "cdi", &cdi, "K", "kind of CDI devices (default " CDI_DEFAULT ")"),
	OPT_IN(DURATION, "grace", &grace_ms, "D", 0, 3600000,
		"between SIGTERM and SIGKILL (default 30s)"),
	OPT_SWITCH("files", &files, "be the part that unpacks and packs, without rights"),
	{ 0 },
};

static volatile int stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

static void watch_signals(void)
{
	struct sigaction s = { .sa_handler = on_signal };

	sigemptyset(&s.sa_mask);
	sigaction(SIGTERM, &s, NULL);
	sigaction(SIGINT, &s, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void say(const char *line)
{
	prog_info("%s", line);
}

static void stands(const char *line)
{
	notify_status("%s", line);
}

/* What is not given is what the machine has, but for what it needs itself. */
static int fill_sizes(struct agent_config *c)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	struct statvfs v;

	c->cpu_cores = cpu_cores ? cpu_cores : sysconf(_SC_NPROCESSORS_ONLN);
	c->memory_bytes = memory_bytes ? memory_bytes : pages * page - MEMORY_KEPT;
	if (c->memory_bytes < MEMORY_LEAST)
		return err_set(EX_UNAVAILABLE,
			"this machine has too little memory to sell any");
	if (io_make_dirs(c->dir, 0711) < 0)
		return -1;
	if (statvfs(c->dir, &v) < 0)
		return err_sys(EX_IOERR, "cannot look at '%s'", c->dir);
	c->disk_bytes = disk_bytes ?
		disk_bytes :
		(int64_t)v.f_bavail * (int64_t)v.f_frsize / DISK_DEFAULT;
	return 0;
}

static int run(int n, char **args)
{
	static struct nvml_gpu gpus[HW_GPUS_MAX];
	const char *names[HW_GPUS_MAX];
	struct key key = KEY_INIT;
	struct agent_config c = { .registry = registry,
		.ca = ca_file,
		.key = &key,
		.key_path = key_path,
		.passphrase_file = passphrase_file,
		.dir = dir,
		.run = run_dir,
		.state_to = state_to,
		.cdi = cdi,
		.gpus = names,
		.images_bytes = images_bytes,
		.private_images = private_images,
		.up_bits_per_s = up_bits,
		.part_gpus = part_gpus,
		.max_hours = max_hours,
		.spot = spot,
		.grace_ms = grace_ms,
		.resolvers = resolvers.n ? resolvers.items : NULL,
		.nresolvers = (size_t)resolvers.n,
		.say = say,
		.stands = stands };
	int rc = -1;

	(void)n, (void)args;
	if (geteuid() != 0) {
		err_set(EX_NOPERM, "containers of strangers are run by root alone");
		return err_report();
	}
	if (files)
		return cell_serve() < 0 ? err_report() : EX_OK;
	watch_signals();
	c.ngpus = ready_gpus(names, gpus);
	if (key_load(&key, key_path, passphrase_file) == 0 && fill_sizes(&c) == 0)
		rc = agent_run(&c, &stopping);
	key_release(&key);
	opt_list_release(&resolvers);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_work = {
	.name = "work",
	.summary = "Run what customers have booked on this node, in containers.",
	.details =
		"Takes from the registry what customers have signed for prices that this node has "
		"quoted, and\nnothing else. Needs root, podman, runc, nftables and e2fsprogs. Ends on "
		"SIGTERM; containers run on\nand are found again.",
	.group = "node",
	.opts = opts,
	.run = run,
};
