/* pack.c - a directory comes back as it was; what is hostile, odd, or in motion does not get in or
 * out. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/pack/pack.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/unpack.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static char place[] = "/tmp/rnp-pack-XXXXXX";

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
	if (system(text) != 0) {
		test_failures++;
		fprintf(stderr, "failed: %s\n", text);
	}
}

static void put(const char *name, const void *data, size_t len)
{
	CHECK(io_create(in_place(name), data, len, 0644) == 0);
}

/* Random bytes, which are different for each seed. */
static void put_random(const char *name, size_t len, unsigned seed)
{
	char *data = xmalloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)((seed = seed * 1103515245 + 12345) >> 16);
	put(name, data, len);
	free(data);
}

static int fetch(void *ctx, const struct manifest_blob *b, struct buf *out)
{
	const struct pack *p = ctx;

	for (size_t i = 0; i < p->walk.manifest.nblobs; i++)
		if (memcmp(p->walk.manifest.blobs[i].sha256, b->sha256, SHA256_BYTES) ==
			0)
			return pack_read(p, i, out);
	return err_set(EX_UNAVAILABLE, "no such blob");
}

static const struct pack_config plain = { .rules = true, .cache = true };

static struct unpack_config unpacking(struct pack *p)
{
	return (struct unpack_config){ .uid = (uid_t)-1,
		.gid = (gid_t)-1,
		.fetch = fetch,
		.ctx = p };
}

/* The directory "work" with a bit of everything. */
static void make_work(void)
{
	run("mkdir -p %s/work/a/deep/er %s/work/empty %s/work/.git/info", place, place,
		place);
	put("work/a-b", "behind a/, by the order of paths", 32);
	put("work/a/x", "", 0);
	put("work/a/deep/er/y", "why", 3);
	put_random("work/big", (20 << 20) + 17, 1);
	put_random("work/joined", 3 << 20, 2);
	put_random("work/joined2", 3 << 20, 3);
	put("work/run.sh", "#!/bin/sh\n", 10);
	run("chmod 755 %s/work/run.sh; chmod 600 %s/work/a-b; chmod 500 %s/work/a/deep/er",
		place, place, place);
	run("cd %s/work && ln -s a/deep here && ln -s ../big a/up && ln run.sh hard",
		place);
	put("work/.gitignore", "*.pyc\n/cache/\n", 14);
	put("work/.git/info/exclude", "secret\n", 7);
	put("work/.git/x.pyc", "goes along", 10);
	put("work/x.pyc", "stays", 5);
	put("work/secret", "stays", 5);
}

static void comes_back(void)
{
	struct pack p;
	struct manifest m;
	struct unpack_config c;
	struct buf left = BUF_INIT;

	run("mkdir -p %s/work/cache && touch %s/work/cache/x", place, place);
	run("ln -s /etc/passwd %s/work/out; ln -s ../.. %s/work/a/out; mkfifo %s/work/fifo",
		place, place, place);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	pack_left_text(&left, &p);
	CHECK_TEXT(
		"left out: 3 by rules ('cache', 'secret', 'x.pyc'), 2 links that lead out of "
		"the directory ('a/out', 'out'), 1 that is neither file nor directory "
		"('fifo')",
		buf_text(&left));
	CHECK(manifest_read(&m, p.text.data, p.text.len, "manifest") == 0);
	c = unpacking(&p);
	CHECK(unpack(&m, in_place("back"), &c) == 0);
	run("cd %s && rm work/out work/a/out work/fifo work/x.pyc work/secret && rm -r work/cache"
	    " && diff -r --no-dereference work back",
		place);
	run("cd %s && for d in work back; do (cd $d && find . -mindepth 1 -printf '%%p %%m %%l\\n' "
	    "| sort) >$d.list; done && cmp work.list back.list",
		place);
	run("chmod 700 %s/back/a/deep/er && rm -r %s/back", place, place);
	manifest_release(&m);
	pack_release(&p);
	buf_release(&left);
}

/* The text of a manifest is canonical, as the hash says that names it. */
static void is_canonical(void)
{
	struct pack p;
	struct buf text = BUF_INIT;
	json_t *doc;

	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	doc = json_parse_object(p.text.data, p.text.len, "manifest");
	CHECK(doc && canon_write(&text, doc) == 0);
	CHECK(text.len == p.text.len && memcmp(text.data, p.text.data, text.len) == 0);
	json_decref(doc);
	buf_release(&text);
	pack_release(&p);
}

/* What is known is not read again, and what has changed is, whatever its times say. */
static void knows(void)
{
	unsigned char before[SHA256_BYTES];
	struct pack p;

	run("find %s/work -exec touch -h -d '2020-01-01' {} +", place);
	/* the time of change is now, and too young to be believed: that of a file that was
	 * written just before */
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	memcpy(before, p.sha256, sizeof before);
	pack_release(&p);
	sleep(3);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	CHECK(p.read_bytes > 0);
	pack_release(&p);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	CHECK_I64(0, p.read_bytes);
	CHECK(memcmp(before, p.sha256, sizeof before) == 0);
	pack_release(&p);
	/* the same size and time of modification */
	run("printf '#!/bin/sx\\n' >%s/work/run.sh && touch -d '2020-01-01' %s/work/run.sh",
		place, place);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	CHECK(p.read_bytes > 0 && p.read_bytes < 8 << 20);
	CHECK(memcmp(before, p.sha256, sizeof before) != 0);
	pack_release(&p);
	/* a cache that is damaged is none */
	run("for f in %s/cache/rnp/pack-*; do printf x >>$f; done", place);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	CHECK(p.read_bytes > 20 << 20);
	pack_release(&p);
}

/* 3000 files of 4 KiB. */
static void fill_many(void)
{
	char data[4096], name[32];

	CHECK(mkdir(in_place("many"), 0755) == 0);
	memset(data, 'x', sizeof data);
	for (int i = 0; i < 3000; i++) {
		int fd;

		snprintf(name, sizeof name, "many/f%04d", i);
		memcpy(data, name, strlen(name));
		fd = open(in_place(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		CHECK(fd >= 0 && io_write_all(fd, data, sizeof data) == 0);
		close(fd);
	}
}

/* Blobs are few, and a file that is new changes few of them. */
static void few_blobs(void)
{
	struct pack before, after;
	size_t same = 0;

	fill_many();
	CHECK(pack_directory(&before, in_place("many"), &plain) == 0);
	put("many/f-new", "new", 3);
	CHECK(pack_directory(&after, in_place("many"), &plain) == 0);
	for (size_t i = 0; i < before.walk.manifest.nblobs; i++)
		for (size_t k = 0; k < after.walk.manifest.nblobs; k++)
			same += memcmp(before.walk.manifest.blobs[i].sha256,
					after.walk.manifest.blobs[k].sha256,
					SHA256_BYTES) == 0;
	CHECK(before.walk.manifest.nblobs >= 3 && before.walk.manifest.nblobs <= 13);
	CHECK(same + 2 >= before.walk.manifest.nblobs);
	pack_release(&before);
	pack_release(&after);
}

/* What changes between listing and reading. */
static void changes(void)
{
	struct pack p;
	struct buf out = BUF_INIT;

	CHECK(pack_directory(&p, in_place("many"), &plain) == 0);
	run("echo more >>%s/many/f0000; rm %s/many/f0010", place, place);
	CHECK_FAILS(EX_TEMPFAIL, pack_read(&p, 0, &out));
	pack_release(&p);
	buf_release(&out);
}

/* Another writes to a large file all the time. */
static void write_more(void *ctx, int64_t bytes)
{
	(void)bytes;
	CHECK(pwrite(*(int *)ctx, "x", 1, 0) == 1);
}

/* It is tried again, and then said of which file. */
static void always_changes(void)
{
	int fd = open(in_place("work/big"), O_WRONLY | O_CLOEXEC);
	const struct pack_config config = { .progress = write_more, .ctx = &fd };
	struct pack p;

	CHECK(pack_directory(&p, in_place("work"), &config) < 0);
	CHECK_I64(EX_TEMPFAIL, err_get()->code);
	CHECK_TEXT("'big' changes while it is packed", err_get()->text);
	err_clear();
	close(fd);
}

/* What is no file, and what leads back to where one comes from. */
static void sockets_and_loops(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct buf left = BUF_INIT;
	struct pack p;

	run("mkdir -p %s/loops/d && cd %s/loops && ln -s a b && ln -s b a && ln -s . d/self "
	    "&& ln -s ../d d/up && touch d/file",
		place, place);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", in_place("loops/socket"));
	CHECK(bind(s, (struct sockaddr *)&at, sizeof at) == 0);
	CHECK(pack_directory(&p, in_place("loops"), &plain) == 0);
	/* links are links, wherever they lead */
	CHECK_I64(6, (int64_t)p.walk.manifest.nentries);
	pack_left_text(&left, &p);
	CHECK_TEXT("left out: 1 that is neither file nor directory ('socket')",
		buf_text(&left));
	pack_release(&p);
	close(s);
	buf_release(&left);
}

static void odd_names(void)
{
	struct pack p;

	run("mkdir %s/odd && touch \"$(printf '%s/odd/a\\nb')\"", place, place);
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("odd"), &plain));
	put("odd/.gitignore", "a*b\n", 4);
	CHECK(pack_directory(&p, in_place("odd"), &plain) == 0);
	pack_release(&p);
	run("touch \"$(printf '%s/odd/\\377')\"", place);
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("odd"), &plain));
	CHECK_FAILS(EX_NOINPUT, pack_directory(&p, in_place("nothing"), &plain));
	CHECK_FAILS(EX_NOINPUT, pack_directory(&p, in_place("work/big"), &plain));
}

/* One file of rules alone; a directory within a repository. */
static void rules(void)
{
	struct pack p;

	run("mkdir -p %s/repo/.git %s/repo/sub/in && cd %s/repo && touch sub/k.o sub/in/top sub/in/k.c",
		place, place, place);
	put("repo/.gitignore", "*.o\n/sub/in/top\n", 16);
	CHECK(pack_directory(&p, in_place("repo/sub"), &plain) == 0);
	CHECK_I64(2,
		(int64_t)p.walk.manifest.nentries); /* a directory and one file in it */
	pack_release(&p);
	put("repo/sub/.skyignore", "in/\n", 4);
	CHECK(pack_directory(&p, in_place("repo/sub"), &plain) == 0);
	CHECK_I64(2, (int64_t)p.walk.manifest.nentries); /* .skyignore, k.o */
	pack_release(&p);
}

/* --- hostile manifests ------------------------------------------------------------------------ */

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void refused(const char *files)
{
	struct manifest m;
	struct buf text = BUF_INIT;

	buf_addf(&text,
		"{\"kind\":\"rnp.manifest\",\"v\":1,\"blobs\":[],\"bytes\":0,\"files\":[%s]}",
		files);
	CHECK_FAILS(EX_DATAERR, manifest_read(&m, text.data, text.len, "m"));
	buf_release(&text);
}

#define FILE_(path) \
	"{\"path\":\"" path "\",\"mode\":420,\"bytes\":0,\"sha256\":\"" EMPTY "\"}"
#define DIR_(path)      "{\"path\":\"" path "\",\"mode\":493,\"dir\":true}"
#define LINK_(path, to) "{\"path\":\"" path "\",\"link\":\"" to "\"}"

static void hostile(void)
{
	static const char *const texts[] = { FILE_("../a"), FILE_("/a"), FILE_("a/../b"),
		FILE_("a//b"), FILE_("."), FILE_(""), FILE_("a\\nb"), FILE_("a/b"),
		FILE_("b") "," FILE_("a"), FILE_("a") "," FILE_("a"),
		FILE_("a") "," FILE_("a/b"), LINK_("a", "b") "," FILE_("a/b"),
		LINK_("a", "/etc"), LINK_("a", ".."), LINK_("a", "b/../.."),
		LINK_("a", ""), DIR_("d") "," LINK_("d/a", "../.."),
		DIR_("d") "," FILE_("d-") "," FILE_("d/a"),
		"{\"path\":\"a\",\"mode\":2541,\"bytes\":0,\"sha256\":\"" EMPTY "\"}",
		"{\"path\":\"a\",\"mode\":420,\"bytes\":-1,\"sha256\":\"" EMPTY "\"}",
		"{\"path\":\"a\",\"mode\":420,\"bytes\":5,\"sha256\":\"" EMPTY "\"}",
		"{\"path\":\"a\",\"mode\":420,\"bytes\":0,\"sha256\":\"x\"}", "[]", "7" };

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		refused(texts[i]);
}

/* A blob that is another, a bound that is exceeded, a place that is taken: nothing is left
 * there. */
static int lie(void *ctx, const struct manifest_blob *b, struct buf *out)
{
	(void)ctx;
	memset(buf_reserve(out, (size_t)b->bytes), 'x', (size_t)b->bytes);
	out->len = (size_t)b->bytes;
	return 0;
}

static void whole_or_not(void)
{
	struct unpack_config c;
	struct pack p;

	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	c = unpacking(&p);
	c.fetch = lie;
	CHECK_FAILS(EX_DATAERR, unpack(&p.walk.manifest, in_place("whole"), &c));
	c = unpacking(&p);
	c.bytes_max = p.walk.manifest.bytes - 1;
	CHECK_FAILS(EX_DATAERR, unpack(&p.walk.manifest, in_place("whole"), &c));
	c = unpacking(&p);
	c.entries_max = p.walk.manifest.nentries - 1;
	CHECK_FAILS(EX_DATAERR, unpack(&p.walk.manifest, in_place("whole"), &c));
	c = unpacking(&p);
	CHECK_FAILS(EX_CANTCREAT, unpack(&p.walk.manifest, in_place("many"), &c));
	run("! ls %s | grep -q 'whole\\|part'", place);
	pack_release(&p);
}

/* A disk that is too small is left as it is; one that others fill meanwhile, too. A directory
 * within itself has no end. */
static void mounts(void)
{
	struct unpack_config c;
	struct pack p;

	if (unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mkdir(in_place("small"), 0755) < 0 ||
		mount("tmpfs", in_place("small"), "tmpfs", 0, "size=64k") < 0) {
		fprintf(stderr,
			"SKIPPED: a small disk, and a directory within itself, need root\n");
		return;
	}
	run("mkdir -p %s/round/a/b && mount --bind %s/round %s/round/a/b", place, place,
		place);
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("round"), &plain));
	run("umount %s/round/a/b", place);
	CHECK(pack_directory(&p, in_place("work"), &plain) == 0);
	c = unpacking(&p);
	c.fetch = lie;
	/* that lie would be found with the first blob */
	CHECK(unpack(&p.walk.manifest, in_place("small/work"), &c) < 0);
	CHECK(strstr(err_get()->text, "the disk has") != NULL);
	err_clear();
	pack_release(&p);
	/* a directory is a page of a tmpfs at the least: bytes alone would fit */
	run("mkdir %s/tiny && for i in $(seq 40); do echo $i >%s/tiny/$i; done", place,
		place);
	CHECK(pack_directory(&p, in_place("tiny"), &plain) == 0);
	c = unpacking(&p);
	CHECK(unpack(&p.walk.manifest, in_place("small/tiny"), &c) < 0);
	CHECK(strstr(err_get()->text, "No space left on device") != NULL);
	err_clear();
	run("[ -z \"$(ls -A %s/small)\" ] && umount %s/small", place, place);
	pack_release(&p);
}

/* What somebody puts there so that packing has no end, or takes all memory. */
static void bounded(void)
{
	struct pack_config c = { .bytes_max = 1 << 20 };
	struct pack p = { 0 };
	size_t n = MANIFEST_BLOBS_MAX + 2;
	char target[3900] = "", name[32];

	run("mkdir %s/huge && cd %s/huge && truncate -s 4T a && truncate -s 4T b", place,
		place);
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("huge"), &c));
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("huge"), &plain));
	/* one file under many names */
	run("cd %s/huge && truncate -s 300K a && rm b && ln a b && ln a c", place);
	CHECK(pack_directory(&p, in_place("huge"), &c) == 0);
	CHECK_I64(900 << 10, p.walk.manifest.bytes);
	pack_release(&p);
	run("cd %s/huge && ln a d", place);
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("huge"), &c));
	/* links that say so much that no manifest holds it */
	CHECK(mkdir(in_place("long"), 0755) == 0);
	memset(target, 'x', sizeof target - 1);
	for (size_t i = 250; i < sizeof target; i += 251)
		target[i] = '/';
	for (size_t i = 0; i * sizeof target < MANIFEST_BYTES_MAX; i++) {
		snprintf(name, sizeof name, "long/%zu", i);
		CHECK((i ? link(in_place("long/0"), in_place(name)) :
			   symlink(target, in_place(name))) == 0);
	}
	CHECK_FAILS(EX_DATAERR, pack_directory(&p, in_place("long"), &plain));
	/* pieces: a small file between two large ones each */
	p = (struct pack){ .walk = WALK_INIT };
	for (size_t i = 0; i < n; i++)
		manifest_add(&p.walk.manifest,
			&(struct manifest_entry){ .type = MANIFEST_FILE,
				.path = xstrdup("x"),
				.bytes = i % 2 ? 1 : PACK_JOINED_BYTES_MAX });
	CHECK_FAILS(EX_DATAERR, pack_cut(&p));
	pack_release(&p);
}

int main(void)
{
	CHECK(mkdtemp(place) != NULL);
	setenv("XDG_CACHE_HOME", in_place("cache"), 1);
	make_work();
	comes_back();
	is_canonical();
	knows();
	few_blobs();
	changes();
	always_changes();
	sockets_and_loops();
	odd_names();
	rules();
	hostile();
	whole_or_not();
	bounded();
	mounts();
	run("chmod -R u+rwx %s && rm -r %s", place, place);
	TEST_END();
}
