/* ready.c - one table of programs with the packages that have them; what no package brings is
 * tried. */
#include "cmd/rnp-register/agent/ready.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/network.h"
#include "cmd/rnp-register/agent/volume.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/net/net.h"

#define CDI_BYTES_MAX    (4 << 20)
#define RESOLV_BYTES_MAX 65536
#define DISK_LEAST       (INT64_C(8) << 30)
#define PODMAN_OLDEST    4
#define TOOL_MS          20000

static const struct {
	const char *program, *package, *what_for;
} programs[] = {
	{ "podman", "podman", "containers" },
	{ "runc", "runc", "containers" },
	{ "conmon", "conmon", "containers" },
	{ "nft", "nftables", "networks of leases" },
	{ "mkfs.ext4", "e2fsprogs", "disks of leases" },
	{ "sshd", "openssh-server", "SSH into leases" },
	{ "ssh", "openssh-client", "SSH into leases" },
};

static void add_lack(json_t *lacks, const char *what, const char *why)
{
	char text[1400];

	snprintf(text, sizeof text, "%s: %.1200s", what, why);
	json_push_text(lacks, text);
}

/* The last error is the reason. Clears it. */
static void add_error(json_t *lacks, const char *what)
{
	add_lack(lacks, what, err_get()->text);
	err_clear();
}

static void look_for_programs(json_t *lacks, json_t *next)
{
	struct buf packages = BUF_INIT, command = BUF_INIT;
	bool dnf = command_find("apt-get", "apt") < 0 && command_find("dnf", "dnf") == 0;

	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (command_find(programs[i].program, programs[i].package) == 0)
			continue;
		add_lack(lacks, programs[i].program, programs[i].what_for);
		buf_addf(&packages, " %s%s", programs[i].package,
			dnf && strcmp(programs[i].program, "ssh") == 0 ? "s" : "");
	}
	err_clear();
	if (packages.len) {
		buf_addf(&command, "install what it needs: %s%s",
			dnf ? "dnf install" : "apt-get install --no-install-recommends",
			packages.data);
		json_push_text(next, command.data);
	}
	buf_release(&packages);
	buf_release(&command);
}

/* Earlier ones do not speak the API that we do. */
static void look_at_podman(json_t *lacks, json_t *next)
{
	static const char *const args[] = { "podman", "--version", NULL };
	const struct command c = { .args = args, .netns = -1, .timeout_ms = TOOL_MS };
	struct buf out = BUF_INIT;
	int major = 0;

	if (command_find("podman", "podman") == 0) {
		if (command_run(&c, &out) < 0) {
			add_error(lacks, "podman");
		} else if (sscanf(buf_text(&out), "podman version %d", &major) == 1 &&
			major < PODMAN_OLDEST) {
			add_lack(lacks, "podman", "it is older than 4.0");
			json_push_text(next,
				"upgrade this system, for podman 4.0 or newer");
		}
	}
	err_clear();
	buf_release(&out);
}

static void note_one(const char *id, void *any)
{
	(void)id;
	*(bool *)any = true;
}

/* Tries a disk and a network as a lease has them. Where programs lack, that was said. */
static void try_both(const struct ready_machine *m, json_t *lacks, json_t *next)
{
	struct buf volumes = BUF_INIT, networks = BUF_INIT;
	struct network_place place = { .pool = NETWORK_POOL,
		.pool_bits = NETWORK_POOL_BITS };
	bool in_use = false;

	buf_addf(&volumes, "%s/volumes", m->dir);
	buf_addf(&networks, "%s/net", m->run);
	place.dir = networks.data;
	/* where leases are both work, and their rules are no other program's to make */
	if (network_each(&place, note_one, &in_use) == 0 && in_use)
		goto out;
	if (command_find("mkfs.ext4", "") == 0 &&
		(io_make_dirs(m->dir, 0711) < 0 ||
			volume_probe(&(struct volume_place){ .dir = volumes.data }) <
				0)) {
		add_error(lacks, "disk of a lease");
		if (access("/sys/fs/ext4/features/encryption", F_OK) < 0)
			json_push_text(next,
				"a kernel whose ext4 does not encrypt (CONFIG_FS_ENCRYPTION) cannot sell; where it is a module: modprobe ext4");
		if (access("/dev/loop-control", F_OK) < 0)
			json_push_text(next, "load what disks need: modprobe loop");
	}
	if (command_find("nft", "") == 0 &&
		(io_make_dirs(networks.data, 0711) < 0 || network_probe(&place) < 0)) {
		add_error(lacks, "network of a lease");
		json_push_text(next,
			"load what networks need, in a container on its host: modprobe -a veth nf_tables nft_masq sch_tbf");
	}
out:
	err_clear();
	buf_release(&volumes);
	buf_release(&networks);
}

static void look_at_disk(const struct ready_machine *m, json_t *lacks, json_t *next)
{
	struct statvfs v;
	char text[200];
	int64_t free_bytes;

	if (statvfs(m->dir, &v) < 0)
		return;
	free_bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
	if (free_bytes >= DISK_LEAST)
		return;
	snprintf(text, sizeof text,
		"%.100s has %.1f GB free; images and disks of leases need 8 at least",
		m->dir, (double)free_bytes / 1e9);
	add_lack(lacks, "disk", text);
	snprintf(text, sizeof text, "make room below %.100s, or mount a disk there",
		m->dir);
	json_push_text(next, text);
}

/* Whether a list of servers of names has one that leases reach: none is private. */
static bool names_are_public(const char *path)
{
	struct buf text = BUF_INIT;
	char address[64];
	bool found = false;

	if (io_read(&text, path, RESOLV_BYTES_MAX) == 0)
		for (const char *at = buf_text(&text); *at && !found;
			at += strcspn(at, "\n"), at += *at == '\n') {
			struct sockaddr_in in = { .sin_family = AF_INET };

			found = sscanf(at, "nameserver %63s", address) == 1 &&
				inet_pton(AF_INET, address, &in.sin_addr) == 1 &&
				!net_is_private((struct sockaddr *)&in);
		}
	err_clear();
	buf_release(&text);
	return found;
}

/* Leases do not reach a router's: whoever installs something in one would wait in vain. */
static void look_at_names(json_t *next)
{
	if (!names_are_public("/etc/resolv.conf") &&
		!names_are_public("/run/systemd/resolve/resolv.conf"))
		json_push_text(next,
			"leases do not reach this machine's servers of names, which are private: add --resolver ADDRESS of a public one to RNP_WORK_OPTIONS in /etc/rnp/work.env, or they find no names");
}

/* Whether a file of that folder tells of a device of this kind and name. Files are JSON or YAML; a
 * uuid stands in no other place of them. */
static bool folder_has(const char *folder, const char *cdi, const char *uuid)
{
	DIR *d = opendir(folder);
	bool has = false;

	for (struct dirent *e; d && !has && (e = readdir(d));) {
		struct buf path = BUF_INIT, text = BUF_INIT;

		buf_addf(&path, "%s/%s", folder, e->d_name);
		if (*e->d_name != '.' && io_read(&text, path.data, CDI_BYTES_MAX) == 0)
			has = strstr(buf_text(&text), cdi) &&
				strstr(buf_text(&text), uuid);
		err_clear();
		buf_release(&path);
		buf_release(&text);
	}
	if (d)
		closedir(d);
	return has;
}

/* GPUs are named by their uuids: not by numbers, which change when a card is added. */
static void look_at_gpus(const struct ready_machine *m, json_t *lacks, json_t *next)
{
	char why[300];
	size_t lost = 0;

	for (size_t i = 0; i < m->ngpus; i++) {
		if (folder_has("/etc/cdi", m->cdi, m->gpus[i]) ||
			folder_has("/var/run/cdi", m->cdi, m->gpus[i]))
			continue;
		if (!lost++)
			snprintf(why, sizeof why, "no CDI file names %.100s=%.100s",
				m->cdi, m->gpus[i]);
	}
	if (!lost)
		return;
	add_lack(lacks, "GPU in containers", why);
	json_push_text(next,
		command_find("nvidia-ctk", "") == 0 ?
			"describe the GPUs to podman: nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml" :
			"install nvidia-container-toolkit from NVIDIA's repository, then describe the GPUs to podman: nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml");
	err_clear();
}

size_t ready_gpus(const char **names, struct nvml_gpu *gpus)
{
	struct hw_causes why = { 0 };
	int n = hw_gpus_read(gpus, HW_GPUS_MAX, &why);
	size_t count = 0;

	for (int i = 0; i < n; i++)
		if (gpus[i].uuid[0])
			names[count++] = gpus[i].uuid;
	return count;
}

bool ready_make_user(void)
{
	static const char *const args[] = { "useradd", "--system", "--home-dir", "/",
		"--shell", "/bin/sh", READY_USER, NULL };
	const struct command c = { .args = args, .netns = -1, .timeout_ms = TOOL_MS };
	bool made = !getpwnam(READY_USER) && command_run(&c, NULL) == 0;

	err_clear();
	return made;
}

void ready_look(const struct ready_machine *m, json_t *lacks, json_t *next)
{
	look_for_programs(lacks, next);
	look_at_podman(lacks, next);
	try_both(m, lacks, next);
	look_at_disk(m, lacks, next);
	if (!getpwnam(READY_USER)) {
		add_lack(lacks, "user " READY_USER, "SSH into leases");
		json_push_text(next,
			"make the user of sessions: useradd --system --home-dir / --shell /bin/sh " READY_USER);
	}
	look_at_gpus(m, lacks, next);
	if (!m->resolvers)
		look_at_names(next);
}
