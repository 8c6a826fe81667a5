/* cell.c - what unpacks and packs for a lease may do that and nothing else, and who holds it is not
 * held by it. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/agent/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/cell_parts.h"
#include "cmd/rnp-register/pack/pack.h"
#include "common/base/clock.h"
#include "common/base/io.h"
#include "tests/unit/test.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define FILTERED false
#else
#define FILTERED true
#endif

#define FIRST_ID UINT32_C(0x2f000000)
#define IDS      UINT32_C(65536)
#define LONG_MS  600000

static char place[] = "/tmp/rnp-cell-XXXXXX";
static bool stops;

static const char *in_place(const char *name)
{
	static struct buf paths[8];
	static int next;
	struct buf *b = &paths[next++ % 8];

	buf_reset(b);
	buf_addf(b, "%s/%s", place, name);
	return b->data;
}

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *fmt, ...)
{
	char text[4000];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	CHECK(system(text) == 0);
}

/* --- a child that was taken over -------------------------------------------------------------- */

static void say_head(uint32_t type, uint32_t code, int64_t bytes)
{
	const struct cell_head h = { .type = type, .code = code, .bytes = bytes };

	(void)!write(STDIN_FILENO, &h, sizeof h);
}

static int users_given(void)
{
	struct cell_head h;

	say_head(CELL_USERS, 0, 0);
	return read(STDIN_FILENO, &h, sizeof h) == sizeof h ? 0 : -1;
}

/* Tries what nobody in there may do. Says what was let through. */
static void try_all(struct buf *out)
{
	char stack[4096], text[64];
	pid_t pid;

#define TRY(call)                                  \
	do {                                       \
		if ((call) >= 0)                   \
			buf_adds(out, #call ", "); \
	} while (0)
	TRY(open("/etc/passwd", O_RDONLY));
	TRY(open("../../../../../../etc/passwd", O_RDONLY));
	TRY(open("/proc/self/status", O_RDONLY));
	TRY(fcntl(3, F_GETFD));
	TRY(openat(3, "..", O_PATH));
	TRY(mkdir("/../../outside/made", 0700));
	TRY(chroot("/"));
	TRY(mknod("/null", S_IFCHR | 0666, makedev(1, 3)));
	TRY(mount("none", "/", "tmpfs", 0, NULL));
	TRY(unshare(CLONE_NEWUSER));
	TRY(setuid(1));
	TRY(chown("/own", 1, 1));
	TRY(kill(getppid(), 0));
	TRY(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
	TRY(sethostname("x", 1));
	if (FILTERED) {
		TRY(socket(AF_INET, SOCK_STREAM, 0));
		TRY(socket(AF_UNIX, SOCK_STREAM, 0));
		TRY(pid = fork());
		TRY(execl("/proc/self/exe", "x", NULL));
		TRY(clone(NULL, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
	}
	(void)pid, (void)stack;
	snprintf(text, sizeof text, "%u %u", geteuid(), getegid());
	buf_addf(out, "it is %s", text);
}

/* What a file "evil" of the folder says it is to do. */
static int evil(const char *does)
{
	struct buf said = BUF_INIT;

	if (strcmp(does, "silent") == 0)
		pause();
	CHECK(cell_bars(3, users_given) == 0);
	switch (*does) {
	case 't': /* try */
		try_all(&said);
		say_head(CELL_ERROR, 65, (int64_t)said.len);
		(void)!write(STDIN_FILENO, said.data, said.len);
		break;
	case 'l': /* long */
		say_head(CELL_BLOBS, 0, INT64_C(1) << 60);
		break;
	case 'n': /* negative */
		say_head(CELL_BLOB, 0, -1);
		break;
	case 'o': /* odd */
		say_head(77, 0, 0);
		break;
	case 'b': /* blobs of no size, and of more than one may have */
		say_head(CELL_BLOBS, 0, sizeof(struct manifest_blob));
		(void)!write(STDIN_FILENO,
			&(struct manifest_blob){ .bytes = INT64_C(1) << 50 },
			sizeof(struct manifest_blob));
		break;
	case 'w': /* words for a terminal */
		say_head(CELL_ERROR, 1u << 31, 9);
		(void)!write(STDIN_FILENO, "\033[2J\nnext", 9);
		break;
	case 'g': { /* get what is no hash */
		const struct cell_get get = { .sha256_hex = "../../etc/passwd",
			.max = 5 };

		say_head(CELL_GET, 0, sizeof get);
		(void)!write(STDIN_FILENO, &get, sizeof get);
		break;
	}
	default:
		abort();
	}
	buf_release(&said);
	for (;;)
		pause();
}

static int child(void)
{
	char does[32] = "";
	int fd = openat(3, "evil", O_RDONLY);

	if (fd < 0)
		return cell_serve() < 0 ? 1 : 0;
	(void)!read(fd, does, sizeof does - 1);
	close(fd);
	return evil(does);
}

/* --- its holder ------------------------------------------------------------------------------ */

static bool stop(void *ctx)
{
	(void)ctx;
	return stops;
}

static struct cell_config config_of(const char *name, int64_t timeout_ms)
{
	int dir = open(in_place(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(dir >= 0 && fchown(dir, FIRST_ID, FIRST_ID) == 0);
	return (struct cell_config){ .dir = dir,
		.first_id = FIRST_ID,
		.ids = IDS,
		.stop = stop,
		.timeout_ms = timeout_ms };
}

static int no_blob(void *ctx, const char *sha256_hex, size_t max, struct buf *out)
{
	(void)ctx, (void)sha256_hex, (void)max, (void)out;
	return err_set(EX_UNAVAILABLE, "no such blob");
}

static void does(const char *what, int64_t timeout_ms, int code, const char *words,
	bool unpacks)
{
	struct cell_config config;
	struct cell_unpacking u = { .sha256_hex = "", .path = "x", .fetch = no_blob };
	struct manifest_blob *blobs = NULL;
	struct cell c = CELL_INIT;
	size_t n;
	pid_t pid;
	int rc;

	CHECK(io_replace(in_place("evil/evil"), what, strlen(what), 0644) == 0);
	config = config_of("evil", timeout_ms);
	rc = cell_open(&c, &config);
	pid = c.pid;
	if (rc == 0)
		rc = unpacks ? cell_unpack(&c, &u) : cell_pack(&c, "x", 0, &blobs, &n);
	CHECK_I64(-1, rc);
	CHECK_I64(code, err_get()->code);
	CHECK(strstr(err_get()->text, words) != NULL);
	if (code == EX_DATAERR) /* nothing was let through */
		CHECK_TEXT(words, err_get()->text);
	CHECK(blobs == NULL);
	err_clear();
	cell_close(&c);
	CHECK(kill(pid, 0) < 0 && errno == ESRCH);
	close(config.dir);
}

static void is_barred(void)
{
	run("mkdir %s/evil %s/outside && chmod 777 %s/outside && touch %s/evil/own && "
	    "chown %u %s/evil/own",
		place, place, place, place, FIRST_ID, place);
	does("try", LONG_MS, 65, "it is 0 0", false);
	run("test -z \"$(ls %s/outside)\"", place);
}

static void does_not_hold(void)
{
	does("long", LONG_MS, EX_OSERR, "says too much", false);
	does("negative", LONG_MS, EX_OSERR, "says too much", false);
	does("odd", LONG_MS, EX_OSERR, "was not asked", false);
	does("odd", LONG_MS, EX_OSERR, "was not asked", true);
	does("blobs", LONG_MS, EX_OSERR, "was not asked", false);
	does("get", LONG_MS, EX_OSERR, "was not asked", true);
	does("words", LONG_MS, EX_OSERR, "?[2J?next", false);
	does("xxx", LONG_MS, EX_OSERR, "ended by signal 6", false);
	does("silent", 300, EX_TEMPFAIL, "not done after", false);
	stops = true;
	does("silent", LONG_MS, EX_TEMPFAIL, "to end", false);
	stops = false;
}

/* --- its work -------------------------------------------------------------------------------- */

static char kept[64][65];
static struct buf kept_bytes[64];
static size_t nkept;

static int fetch(void *ctx, const char *sha256_hex, size_t max, struct buf *out)
{
	(void)ctx;
	for (size_t i = 0; i < nkept; i++)
		if (strcmp(kept[i], sha256_hex) == 0 && kept_bytes[i].len <= max) {
			buf_add(out, kept_bytes[i].data, kept_bytes[i].len);
			return 0;
		}
	return err_set(EX_UNAVAILABLE, "no blob %.12s", sha256_hex);
}

static int pack(const char *dir, const char *name, int64_t bytes_max)
{
	struct cell_config config = config_of(dir, LONG_MS);
	struct cell c = CELL_INIT;
	struct manifest_blob *blobs = NULL;
	size_t n = 0;
	int rc = cell_open(&c, &config);

	if (rc == 0)
		rc = cell_pack(&c, name, bytes_max, &blobs, &n);
	for (nkept = 0; nkept < n && rc == 0; nkept++) {
		rc = cell_read(&c, nkept, blobs[nkept].bytes, &kept_bytes[nkept]);
		sodium_bin2hex(kept[nkept], 65, blobs[nkept].sha256, SHA256_BYTES);
	}
	free(blobs);
	cell_close(&c);
	close(config.dir);
	return rc;
}

static int unpack_kept(const char *dir, const char *path, int64_t bytes_max)
{
	struct cell_config config = config_of(dir, LONG_MS);
	const struct cell_unpacking u = { .sha256_hex = kept[nkept - 1],
		.path = path,
		.bytes_max = bytes_max,
		.fetch = fetch };
	struct cell c = CELL_INIT;
	int rc = cell_open(&c, &config);

	if (rc == 0)
		rc = cell_unpack(&c, &u);
	cell_close(&c);
	close(config.dir);
	return rc;
}

/* Whatever users its files belong to; and nothing that the machine's root alone may read. */
static void comes_back(void)
{
	run("mkdir -p %s/out/artifacts/deep %s/in && cd %s/out/artifacts && echo one >a && "
	    "head -c 9000000 /dev/urandom >deep/b && ln -s a l && chown -R -h %u:%u . && "
	    "chown %u:%u deep/b && chmod 600 deep/b a && chmod 700 deep",
		place, place, place, FIRST_ID, FIRST_ID, FIRST_ID + 1000,
		FIRST_ID + 1000);
	CHECK(pack("out", "artifacts", 0) == 0);
	CHECK(unpack_kept("in", "work/.rnp/mounts/1", 0) == 0);
	run("cd %s && diff -r out/artifacts in/work/.rnp/mounts/1 && "
	    "test \"$(stat -c %%u in/work in/work/.rnp/mounts/1/deep/b | uniq)\" = %u",
		place, FIRST_ID);
	run("cd %s/out/artifacts && echo root >secret && chmod 600 secret", place);
	CHECK_FAILS(EX_NOPERM, pack("out", "artifacts", 0));
	run("rm %s/out/artifacts/secret", place);
}

static void is_bounded(void)
{
	CHECK_FAILS(EX_DATAERR, pack("out", "artifacts", 9000000));
	CHECK_FAILS(EX_NOINPUT, pack("out", "nothing", 0));
	run("cd %s/out && ln -s ../outside link && ln -s artifacts near", place);
	CHECK_FAILS(EX_IOERR, pack("out", "link", 0));
	CHECK_FAILS(EX_IOERR, pack("out", "near", 0));
	run("cd %s/out && mkdir huge && truncate -s 1T huge/x && chown -R %u:%u huge",
		place, FIRST_ID, FIRST_ID);
	CHECK_FAILS(EX_DATAERR, pack("out", "huge", INT64_C(64) << 20));
	CHECK(pack("out", "artifacts", 0) == 0);
	CHECK_FAILS(EX_DATAERR, unpack_kept("in", "small", 9000000));
	run("test \"$(ls -A %s/in)\" = work", place);
}

/* What lay there before leads nowhere, as root would be led. */
static void leads_nowhere(void)
{
	run("cd %s && mkdir led && ln -s ../outside led/a && ln -s %s/outside led/b && "
	    "ln -s / led/c && mkdir led/d && mkfifo led/d/e",
		place, place);
	CHECK_FAILS(EX_CANTCREAT, unpack_kept("led", "a/x", 0));
	CHECK_FAILS(EX_CANTCREAT, unpack_kept("led", "b/x", 0));
	CHECK_FAILS(EX_CANTCREAT, unpack_kept("led", "d", 0));
	CHECK(unpack_kept("led", "c/x", 0) == 0);
	run("cd %s && test -z \"$(ls outside)\" && test -e led/x/a && ! ls led | grep part",
		place);
}

/* It ends with whoever holds it. */
static void ends_with_its_holder(void)
{
	int64_t until_ns = clock_mono_ns() + INT64_C(60000000000);
	int ends[2];
	pid_t holder, pid = 0;

	CHECK(pipe(ends) == 0);
	holder = fork();
	if (holder == 0) {
		struct cell_config config = config_of("in", LONG_MS);
		struct cell c = CELL_INIT;

		CHECK(cell_open(&c, &config) == 0);
		(void)!write(ends[1], &c.pid, sizeof c.pid);
		for (;;)
			pause();
	}
	CHECK(read(ends[0], &pid, sizeof pid) == sizeof pid);
	CHECK(pid > 0 && kill(pid, 0) == 0);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	/* it may stay as a zombie of nobody's who waits */
	while (clock_mono_ns() < until_ns && kill(pid, 0) == 0) {
		char path[40], text[400] = "";
		int fd;

		snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 ||
			strstr(text, ") Z "))
			break;
		close(fd);
		usleep(10000);
	}
	CHECK(clock_mono_ns() < until_ns);
}

static bool can_run_here(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(geteuid() != 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0);
	waitpid(pid, &status, 0);
	return status == 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[2], "--files") == 0)
		return child();
	if (!can_run_here()) {
		fprintf(stderr, "SKIPPED: cells need root and name spaces of users\n");
		TEST_END();
	}
	CHECK(mkdtemp(place) != NULL && chmod(place, 0755) == 0);
	is_barred();
	does_not_hold();
	comes_back();
	is_bounded();
	leads_nowhere();
	ends_with_its_holder();
	for (size_t i = 0; i < sizeof kept_bytes / sizeof *kept_bytes; i++)
		buf_release(&kept_bytes[i]);
	run("rm -rf %s", place);
	TEST_END();
}
