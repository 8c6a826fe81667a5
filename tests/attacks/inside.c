/* inside.c - runs in a container of a lease and tries what nobody may do there: a line each, "NAME:
 * done", or the error that the kernel gave. `inside connect ADDRESS PORT...` tries addresses,
 * `inside bomb` is a fork bomb, `inside who` says whose it is,
 * `inside tables` takes what the kernel has, `inside connections ADDRESS N` sends from N ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long rc)
{
	printf("%s: %s\n", name, rc < 0 ? strerrorname_np(errno) : "done");
	fflush(stdout);
}

/* --- mounts and name spaces ----------------------------------------------------------------- */

static long in_child(int flags)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(flags) < 0 ? errno : 0);
	waitpid(pid, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

static void spaces(void)
{
	int fd;

	say("mount tmpfs", mount("none", "/tmp", "tmpfs", 0, NULL));
	say("mount proc", mount("none", "/tmp", "proc", 0, NULL));
	say("mount bind", mount("/etc", "/tmp", NULL, MS_BIND, NULL));
	say("remount", mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL));
	say("umount", umount2("/proc", MNT_DETACH));
	say("pivot_root", syscall(SYS_pivot_root, "/", "/tmp"));
	say("chroot", chroot("/tmp"));
	say("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	say("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	say("unshare user", in_child(CLONE_NEWUSER));
	say("unshare mount", in_child(CLONE_NEWNS));
	say("unshare net", in_child(CLONE_NEWNET));
	say("unshare cgroup", in_child(CLONE_NEWCGROUP));
	say("clone user", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	fd = open("/proc/1/ns/net", O_RDONLY);
	say("setns", fd < 0 ? -1 : setns(fd, 0));
}

/* --- devices, modules, the machine ------------------------------------------------------------ */

static void open_one(const char *path, int flags)
{
	char name[128];

	snprintf(name, sizeof name, "open %s", path);
	say(name, open(path, flags));
}

static void machine(void)
{
	static const char *const paths[] = { "/dev/mem", "/dev/kmsg", "/dev/loop-control",
		"/dev/loop0", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/nvidia0",
		"/dev/nvidiactl", "/dev/vda", "/dev/sda", "/proc/kcore" };
	static const char *const writable[] = { "/proc/sys/kernel/core_pattern",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/kernel/panic", "/proc/sysrq-trigger",
		"/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper",
		"/sys/power/state", "/sys/kernel/mm/ksm/run",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes",
		"/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/devices/devices.allow",
		"/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs" };
	struct timeval now = { 0 };

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		open_one(paths[i], O_RDONLY);
	for (size_t i = 0; i < sizeof writable / sizeof *writable; i++)
		open_one(writable[i], O_WRONLY);
	say("mknod block", mknod("/tmp/b", S_IFBLK | 0600, makedev(7, 0)));
	say("mknod char", mknod("/tmp/c", S_IFCHR | 0600, makedev(1, 1)));
	say("init_module", syscall(SYS_init_module, "", 0, ""));
	say("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
	say("reboot", reboot(RB_DISABLE_CAD));
	say("swapon", swapon("/tmp/x", 0));
	say("settimeofday", settimeofday(&now, NULL));
	say("sethostname", sethostname("x", 1));
	say("iopl", syscall(SYS_iopl, 3));
	say("klog", klogctl(3, (char[16]){ 0 }, 16));
	say("quotactl", syscall(SYS_quotactl, 0, NULL, 0, NULL));
	say("acct", syscall(SYS_acct, "/tmp/x"));
}

/* --- other processes, the kernel's tables ---------------------------------------------------- */

static void kernel(void)
{
	union bpf_attr bpf = { .map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = 4,
		.value_size = 4,
		.max_entries = 1 };
	struct perf_event_attr perf = { .size = sizeof perf, .type = PERF_TYPE_SOFTWARE };
	struct file_handle *handle = malloc(sizeof *handle + 8);
	struct rlimit limit;
	cpu_set_t all;

	/* the inode number 2 is the root of a disk: "shocker", 2014 */
	handle->handle_bytes = 8;
	handle->handle_type = 1;
	memset(handle->f_handle, 0, 8);
	handle->f_handle[0] = 2;
	say("open_by_handle_at",
		open_by_handle_at(open("/etc/hosts", O_RDONLY), handle, O_RDONLY));
	free(handle);
	say("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &bpf, sizeof bpf));
	say("perf_event_open", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
	say("userfaultfd", syscall(SYS_userfaultfd, 0));
	say("keyctl", syscall(SYS_keyctl, 0, -3, 1));
	say("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
	say("raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	say("packet socket", socket(AF_PACKET, SOCK_RAW, 0));
	/* families that know no network namespace, or nobody needs */
	say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	say("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
	say("audit", socket(AF_NETLINK, SOCK_RAW, 9));
	say("ptrace 1", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
	say("nice", setpriority(PRIO_PROCESS, 0, -5));
	say("real time", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	CPU_ZERO(&all);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max = limit.rlim_max + 1;
	say("more files", setrlimit(RLIMIT_NOFILE, &limit));
	getrlimit(RLIMIT_CORE, &limit);
	printf("core: %lu %lu\n", (unsigned long)limit.rlim_cur,
		(unsigned long)limit.rlim_max);
}

/* --- addresses ------------------------------------------------------------------------------ */

/* Whether somebody answers: "done", or why not. */
static void reach(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), why = 0;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof why;
	char name[64];

	snprintf(name, sizeof name, "connect %s %d", address, port);
	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno == EINPROGRESS) {
		if (poll(&p, 1, 3000) == 0)
			why = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len);
		errno = why;
	} else {
		why = errno;
	}
	say(name, why ? -1 : 0);
	close(fd);
}

/* Processes without end, each of which tries to be many. */
static void bomb(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;)
		if (fork() < 0)
			usleep(1000);
}

/* As many connections as there may be, each of another port, and none is ended. */
static void connections(const char *address, int most)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int done = 0, refused = 0;

	inet_pton(AF_INET, address, &to.sin_addr);
	for (int i = 0; i < most; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);

		to.sin_port = htons((uint16_t)(i % 60000 + 1));
		if (sendto(fd, "", 1, 0, (struct sockaddr *)&to, sizeof to) == 1)
			done++;
		else
			refused++;
		close(fd);
	}
	printf("connections: %d sent, %d refused\n", done, refused);
}

/* Locks, files and watches, until the kernel says that it is enough. */
static void tables(void)
{
	long n = 0;

	while (inotify_init1(0) >= 0)
		n++;
	printf("inotify: %ld %s\n", n, strerrorname_np(errno));
	for (n = 0; memfd_create("x", 0) >= 0; n++)
		continue;
	printf("memfd: %ld %s\n", n, strerrorname_np(errno));
	for (n = 0; shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0 && n < 100000; n++)
		continue;
	printf("shmget: %ld %s\n", n, strerrorname_np(errno));
	for (n = 0; semget(IPC_PRIVATE, 100, IPC_CREAT | 0600) >= 0 && n < 100000; n++)
		continue;
	printf("semget: %ld %s\n", n, strerrorname_np(errno));
	for (n = 0;
		timer_create(CLOCK_MONOTONIC, NULL, &(timer_t){ 0 }) == 0 && n < 1000000;
		n++)
		continue;
	printf("timers: %ld %s\n", n, strerrorname_np(errno));
}

int main(int n, char **args)
{
	if (n > 3 && strcmp(args[1], "connections") == 0)
		connections(args[2], atoi(args[3]));
	if (n > 1 && strcmp(args[1], "connections") == 0)
		return 0;
	if (n > 1 && strcmp(args[1], "tables") == 0) {
		tables();
		return 0;
	}
	if (n > 1 && strcmp(args[1], "bomb") == 0)
		bomb();
	if (n > 1 && strcmp(args[1], "who") == 0)
		return printf("%d %d %d\n", getuid(), geteuid(), getegid()) < 0;
	if (n > 1 && strcmp(args[1], "connect") == 0) {
		for (int i = 2; i + 1 < n; i += 2)
			reach(args[i], atoi(args[i + 1]));
		return 0;
	}
	spaces();
	machine();
	kernel();
	return 0;
}
