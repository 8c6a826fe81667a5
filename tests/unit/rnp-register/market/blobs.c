/* blobs.c - a registry keeps blobs for whom they belong to: whole or not at all, once, as long
 * as it says, and for nobody else. A real server, and the client that customers and nodes use. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/blobs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "cmd/rnp-register/market/blob_parts.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "tests/unit/rnp-register/market/serve.h"

static void start(int64_t quota_bytes, int64_t keep_ms)
{
	const struct registry_config config = { .blob_quota_bytes = quota_bytes,
		.blob_keep_ms = keep_ms };

	start_with(&config);
}

static const char *name_of(const void *data, size_t len)
{
	static char name[BLOB_NAME_MAX];
	unsigned char hash[SHA256_BYTES];

	sha256(hash, data, len);
	return sodium_bin2hex(name, sizeof name, hash, sizeof hash);
}

static const char *path_of(const char *name, const char *query)
{
	static struct buf paths[4];
	static int next;
	struct buf *b = &paths[next++ % 4];

	buf_reset(b);
	buf_addf(b, "/v1/blobs/%s%s", name, query);
	return b->data;
}

/* A booking on its way to the writer's thread. */
struct booked {
	struct sql done;
	json_t *booking;
};

static int run_booking(struct registry_put *p, struct registry_db *db)
{
	return blob_rows_book(&db->store, CLUSTER,
		((struct booked *)p->done_ctx)->booking);
}

/* Books the cluster anew, with these fields, in which %s is a name. */
static void book(const char *fmt, const char *name)
{
	struct registry_put *p = xcalloc(1, sizeof *p);
	struct booked b = { .done = { .done = false } };
	struct buf text = BUF_INIT;
	char fields[400];

	snprintf(fields, sizeof fields, fmt, name);
	buf_addf(&text, "{\"proposal\":{\"offers\":[{\"nodes\":[{}]}]},\"offer\":0,%s}",
		fields);
	b.booking = json_parse_object(text.data, text.len, "test");
	CHECK(b.booking != NULL);
	sql("DELETE FROM blob_limits");
	sql("DELETE FROM blob_booked");
	p->what = PUT_JOB;
	p->job = run_booking;
	p->done = sql_done;
	p->done_ctx = &b;
	registry_db_put(&registry.db, p);
	while (!b.done.done)
		usleep(1000);
	json_decref(b.booking);
	buf_release(&text);
}

static void whose_they_are(void)
{
	const char *name = name_of("hello", 5);
	struct buf body = BUF_INIT;

	CHECK_I64(401, ask("PUT", path_of(name, ""), NULL, "hello", 5, NULL));
	CHECK_I64(402, ask("PUT", path_of(name, ""), &stranger, "hello", 5, NULL));
	CHECK_I64(400, ask("PUT", "/v1/blobs/abc", &customer, "hello", 5, NULL));
	CHECK_I64(422, ask("PUT", path_of(name, ""), &customer, "hallo", 5, NULL));
	CHECK_I64(404, ask("GET", path_of(name, ""), &customer, NULL, 0, NULL));
	CHECK_I64(201, ask("PUT", path_of(name, ""), &customer, "hello", 5, NULL));
	CHECK_I64(200, ask("PUT", path_of(name, ""), &customer, "hello", 5, NULL));
	CHECK_I64(200, ask("GET", path_of(name, ""), &customer, NULL, 0, &body));
	CHECK_TEXT("hello", buf_text(&body));
	CHECK_I64(200, ask("HEAD", path_of(name, ""), &customer, NULL, 0, NULL));
	CHECK_I64(401, ask("GET", path_of(name, ""), NULL, NULL, 0, NULL));
	/* it is there, but not theirs; and to send another's blob one has to have it */
	CHECK_I64(404, ask("GET", path_of(name, ""), &other, NULL, 0, NULL));
	CHECK_I64(422, ask("PUT", path_of(name, ""), &other, "", 0, NULL));
	CHECK_I64(404, ask("GET", path_of(name, ""), &other, NULL, 0, NULL));
	/* a node of the cluster, and one that is not */
	CHECK_I64(404, ask("GET", path_of(name, ""), &node, NULL, 0, NULL));
	book("\"run_sha256\": \"%s\", \"artifacts\": {\"paths\": [\"x\"]}", name);
	CHECK_I64(200,
		ask("GET", path_of(name, "?cluster=" CLUSTER), &node, NULL, 0, &body));
	CHECK_TEXT("hello", buf_text(&body));
	/* the customer's, but of another job */
	CHECK_I64(201,
		ask("PUT", path_of(name_of("mine", 4), ""), &customer, "mine", 4, NULL));
	CHECK_I64(404,
		ask("GET", path_of(name_of("mine", 4), "?cluster=" CLUSTER), &node, NULL,
			0, NULL));
	CHECK_I64(404,
		ask("GET", path_of(name, "?cluster=" CLUSTER), &stranger, NULL, 0, NULL));
	CHECK_I64(404,
		ask("GET", path_of(name, "?cluster=" CLUSTER), &other, NULL, 0, NULL));
	CHECK_I64(404, ask("GET", path_of(name, "?cluster=c2"), &node, NULL, 0, NULL));
	/* what it sends is the customer's */
	name = name_of("artifact", 8);
	CHECK_I64(201,
		ask("PUT", path_of(name, "?cluster=" CLUSTER), &node, "artifact", 8,
			NULL));
	CHECK_I64(200, ask("GET", path_of(name, ""), &customer, NULL, 0, NULL));
	CHECK_I64(404, ask("GET", path_of(name, ""), &node, NULL, 0, NULL));
	/* its lease is over */
	sql("UPDATE members SET state = 6");
	CHECK_I64(404,
		ask("GET", path_of(name, "?cluster=" CLUSTER), &node, NULL, 0, NULL));
	sql("UPDATE members SET state = 4");
	buf_release(&body);
}

static struct transfer with(const struct key *key, const char *cluster)
{
	return (struct transfer){ .http = &http,
		.base = base,
		.key = key,
		.cluster = cluster };
}

static void make_work(void)
{
	char *data = xmalloc(40 << 20);

	for (size_t i = 0; i < 40 << 20; i++)
		data[i] = (char)((i * 2654435761u) >> 20);
	CHECK(mkdir(in_place("work"), 0755) == 0 && mkdir(in_place("work/d"), 0755) == 0);
	CHECK(io_create(in_place("work/big"), data, 40 << 20, 0644) == 0);
	CHECK(io_create(in_place("work/d/small"), "small", 5, 0600) == 0);
	CHECK(io_create(in_place("work/d/empty"), "", 0, 0644) == 0);
	free(data);
}

/* A directory goes there once, and comes back at a node. */
static void directories(void)
{
	const struct pack_config config = { .rules = true };
	const struct unpack_config to = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	struct transfer t = with(&customer, NULL), n = with(&node, CLUSTER);
	char name[TRANSFER_NAME_MAX], command[200];
	struct pack p;

	make_work();
	CHECK(pack_directory(&p, in_place("work"), &config) == 0);
	sodium_bin2hex(name, sizeof name, p.sha256, sizeof p.sha256);
	CHECK(transfer_upload(&t, &p) == 0);
	CHECK_I64((int64_t)p.text.len + p.walk.manifest.bytes, t.bytes);
	CHECK_I64((int64_t)p.walk.manifest.nblobs + 2, t.requests);
	CHECK(transfer_upload(&t, &p) == 0);
	CHECK_I64(0, t.bytes);
	CHECK_I64(1, t.requests);
	/* not of this job */
	CHECK_FAILS(1, transfer_download(&n, name, in_place("there"), &to));
	book("\"blobs\":[\"%s\"]", name);
	CHECK(transfer_download(&n, name, in_place("there"), &to) == 0);
	snprintf(command, sizeof command, "diff -r %s/work %s/there", place, place);
	CHECK(system(command) == 0);
	CHECK_I64(p.walk.manifest.bytes, n.bytes);
	t = with(&other, NULL);
	CHECK_FAILS(1, transfer_download(&t, name, in_place("theirs"), &to));
	/* a file has changed since: whoever sends beside ends too, and no manifest goes out */
	snprintf(command, sizeof command, "echo >>%s/work/big", place);
	CHECK(system(command) == 0);
	CHECK_FAILS(EX_TEMPFAIL, transfer_upload(&t, &p));
	CHECK_I64(404, ask("GET", path_of(name, ""), &other, NULL, 0, NULL));
	pack_release(&p);
}

/* What broke off goes on where it was. */
static void goes_on(void)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf body = BUF_INIT, url = BUF_INIT;
	char *data = xmalloc(3 << 20), name[BLOB_NAME_MAX];
	struct http_abort off = HTTP_ABORT_INIT;

	memset(data, 'g', 3 << 20);
	snprintf(name, sizeof name, "%s", name_of(data, 3 << 20));
	/* a client that says it sends all, and leaves */
	buf_addf(&url, "%s%s", base, path_of(name, ""));
	CHECK(http_abort_open(&off) == 0);
	{
		const struct http_source half = { .fd = -1, .bytes = 3 << 20 };
		const struct http_request q = { .method = "PUT",
			.url = url.data,
			.signer = &customer,
			.source = &half,
			.tries = 1,
			.abort = &off };
		struct http_source s = half;
		struct http_request cut = q;
		int fd = open(in_place("half"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		/* the file is shorter than the body */
		CHECK(fd >= 0 && io_write_all(fd, data, 1 << 20) == 0);
		s.fd = fd;
		cut.source = &s;
		CHECK(http_fetch(&http, &cut, &r) < 0);
		err_clear();
		close(fd);
	}
	http_response_release(&r);
	http_abort_close(&off);
	for (int i = 0; i < 2000; i++) {
		char question[100];

		snprintf(question, sizeof question, "{\"sha256\":[\"%s\"]}", name);
		CHECK_I64(200,
			ask("POST", "/v1/blobs", &customer, question, strlen(question),
				&body));
		if (strstr(buf_text(&body), "\"have\":1048576"))
			break;
		usleep(10000);
	}
	CHECK(strstr(buf_text(&body), "\"have\":1048576") != NULL);
	CHECK_I64(409, ask("PUT", path_of(name, "?from=5"), &customer, data, 5, NULL));
	CHECK_I64(201,
		ask("PUT", path_of(name, "?from=1048576"), &customer, data + (1 << 20),
			2 << 20, NULL));
	CHECK_I64(200, ask("GET", path_of(name, ""), &customer, NULL, 0, &body));
	CHECK(body.len == 3 << 20 && memcmp(body.data, data, body.len) == 0);
	free(data);
	buf_release(&body);
	buf_release(&url);
}

/* A node keeps what its booking allows, and its customer may send as before; it reads nothing of
 * his by sending lists that name it. */
static void artifacts(void)
{
	char *data = xcalloc(1, 20 << 20), mine[BLOB_NAME_MAX], question[200];
	const char *as_node = "?cluster=" CLUSTER "&manifest=", *list;
	char path[300];
	struct buf body = BUF_INIT;

	snprintf(mine, sizeof mine, "%s", name_of("mine", 4));
	book("\"run_sha256\":\"%s\"", mine);
	CHECK_I64(507,
		ask("PUT", path_of(name_of("a", 1), "?cluster=" CLUSTER), &node, "a", 1,
			&body));
	book("\"artifacts\":{\"paths\":[\"x\"],\"bytes_max\":%s}", "1000000");
	CHECK_I64(507,
		ask("PUT", path_of(name_of(data, 20 << 20), "?cluster=" CLUSTER), &node,
			data, 20 << 20, &body));
	CHECK(strstr(buf_text(&body), "\"cause\":\"quota\"") != NULL);
	/* a list of the node's, which names what the customer has sent for another job */
	snprintf(question, sizeof question,
		"{\"blobs\":[{\"bytes\":4,\"sha256\":\"%s\"}]}", mine);
	list = name_of(question, strlen(question));
	snprintf(path, sizeof path, "/v1/blobs/%s%s%s", list, as_node, list);
	CHECK_I64(201, ask("PUT", path, &node, question, strlen(question), NULL));
	sql("UPDATE members SET artifacts = '%s'", list);
	snprintf(path, sizeof path, "/v1/blobs%s%s", as_node, list);
	snprintf(question, sizeof question, "{\"sha256\":[\"%s\"]}", mine);
	CHECK_I64(200, ask("POST", path, &node, question, strlen(question), &body));
	CHECK(strstr(buf_text(&body), mine) != NULL);
	CHECK_I64(404,
		ask("GET", path_of(mine, "?cluster=" CLUSTER), &node, NULL, 0, NULL));
	free(data);
	buf_release(&body);
}

/* Sends an artifact that is one blob as part of a directory of that name. */
static void send_artifact(const char *text, const char *manifest)
{
	char path[300];

	snprintf(path, sizeof path, "/v1/blobs/%s?cluster=" CLUSTER "&manifest=%s",
		name_of(text, strlen(text)), manifest);
	CHECK_I64(201, ask("PUT", path, &node, text, strlen(text), NULL));
}

/* Artifacts go when the next ones are there, but for what both have. */
static void next_artifacts(void)
{
	char first[BLOB_NAME_MAX], second[BLOB_NAME_MAX], path[300], question[200];
	struct buf body = BUF_INIT;

	snprintf(first, sizeof first, "%s", name_of("first list", 10));
	snprintf(second, sizeof second, "%s", name_of("second list", 11));
	send_artifact("of the first", first);
	send_artifact("of both", first);
	send_artifact("first list", first);
	sql("UPDATE members SET artifacts = '%s'", first);
	snprintf(path, sizeof path, "/v1/blobs?cluster=" CLUSTER "&manifest=%s", second);
	snprintf(question, sizeof question, "{\"sha256\":[\"%s\"]}",
		name_of("of both", 7));
	CHECK_I64(200, ask("POST", path, &node, question, strlen(question), &body));
	CHECK_TEXT("{\"missing\":[]}\n", buf_text(&body));
	send_artifact("second list", second);
	CHECK_I64(200,
		ask("GET", path_of(name_of("of the first", 12), ""), &customer, NULL, 0,
			NULL));
	sql("UPDATE members SET artifacts = '%s'", second);
	CHECK_I64(404,
		ask("GET", path_of(name_of("of the first", 12), ""), &customer, NULL, 0,
			NULL));
	CHECK_I64(404, ask("GET", path_of(first, ""), &customer, NULL, 0, NULL));
	CHECK_I64(200,
		ask("GET", path_of(name_of("of both", 7), ""), &customer, NULL, 0, NULL));
	CHECK_I64(200, ask("GET", path_of(second, ""), &customer, NULL, 0, NULL));
	buf_release(&body);
}

/* A body that does not come until somebody says so. */
struct slow_body {
	char path[300];
	const char *data;
	size_t len;
	_Atomic bool go;
	int status;
};

static long read_slowly(void *ctx, void *to, size_t max)
{
	struct slow_body *b = ctx;

	while (!b->go)
		usleep(1000);
	if (max > b->len)
		max = b->len;
	memcpy(to, b->data, max);
	b->data += max;
	b->len -= max;
	return (long)max;
}

static void *send_slowly(void *ctx)
{
	struct slow_body *b = ctx;
	struct http client = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	const struct http_source source = { .read = read_slowly,
		.ctx = b,
		.bytes = (int64_t)b->len };
	char url[400];

	snprintf(url, sizeof url, "%s%s", base, b->path);
	{
		const struct http_request q = { .method = "PUT",
			.url = url,
			.signer = &other,
			.source = &source,
			.tries = 1 };

		(void)http_fetch(&client, &q, &r);
	}
	b->status = r.status;
	http_response_release(&r);
	http_release(&client);
	return NULL;
}

#define AT_ONCE 8

/* Uploads at once have together what the account may have, and no byte of them has come yet. */
static void quota_at_once(void)
{
	const size_t len = 700 << 10;
	char *data = xcalloc(AT_ONCE, len);
	struct slow_body bodies[AT_ONCE];
	pthread_t threads[AT_ONCE];
	int kept = 0;

	for (int i = 0; i < AT_ONCE; i++) {
		char *mine = data + (size_t)i * len;

		mine[0] = (char)(i + 1);
		bodies[i] = (struct slow_body){ .data = mine, .len = len };
		snprintf(bodies[i].path, sizeof bodies[i].path, "%s",
			path_of(name_of(mine, len), ""));
		CHECK(pthread_create(&threads[i], NULL, send_slowly, &bodies[i]) == 0);
	}
	/* two begin, and wait for their bodies */
	for (int i = 0; i < 6000 &&
		blob_parts_bytes(&registry.blobs->files, other.address, false, "") <
			(int64_t)(2 * len);
		i++)
		usleep(10000);
	CHECK_I64((int64_t)(2 * (len + BLOB_OVERHEAD_BYTES)),
		blob_parts_bytes(&registry.blobs->files, other.address, false, ""));
	for (int i = 0; i < AT_ONCE; i++)
		bodies[i].go = true;
	for (int i = 0; i < AT_ONCE; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		CHECK(bodies[i].status == 201 || bodies[i].status == 507);
		kept += bodies[i].status == 201;
	}
	CHECK_I64(2, kept);
	CHECK_I64(0, blob_parts_bytes(&registry.blobs->files, other.address, false, ""));
	sql("DELETE FROM blob_holders");
	free(data);
}

static void quota(void)
{
	char *data = xcalloc(1, 3 << 20);
	struct buf body = BUF_INIT;

	CHECK_I64(507,
		ask("PUT", path_of(name_of(data, 3 << 20), ""), &customer, data, 3 << 20,
			&body));
	CHECK(strstr(buf_text(&body), "\"cause\":\"quota\"") != NULL);
	CHECK_I64(201,
		ask("PUT", path_of(name_of(data, 1 << 20), ""), &other, data, 1 << 20,
			&body));
	CHECK_I64(507,
		ask("PUT", path_of(name_of(data, (1 << 20) + 1), ""), &other, data,
			(1 << 20) + 1, &body));
	free(data);
	buf_release(&body);
}

/* A disk that is full: nothing half done stays, and the server serves. */
static void no_space(void)
{
	struct buf body = BUF_INIT;
	char *data = xcalloc(1, 2 << 20), command[300];

	if (geteuid() != 0) {
		fprintf(stderr, "SKIPPED: a full disk needs root\n");
		free(data);
		return;
	}
	stop();
	snprintf(command, sizeof command,
		"mkdir -p %s/full && mount -t tmpfs -o size=1m tmpfs %s/full 2>/dev/null",
		place, place);
	if (system(command) != 0) {
		fprintf(stderr, "SKIPPED: no tmpfs can be mounted here\n");
		start(0, 0);
		free(data);
		return;
	}
	{
		const struct registry_config config = { .blobs_path = in_place(
								"full/blobs") };

		start_with(&config);
	}
	CHECK_I64(507,
		ask("PUT", path_of(name_of(data, 2 << 20), ""), &other, data, 2 << 20,
			&body));
	CHECK(strstr(buf_text(&body), "\"cause\":\"storage\"") != NULL);
	CHECK_I64(201, ask("PUT", path_of(name_of("ok", 2), ""), &other, "ok", 2, &body));
	stop();
	snprintf(command, sizeof command,
		"[ -z \"$(ls %s/full/blobs/parts)\" ] && umount %s/full", place, place);
	CHECK(system(command) == 0);
	start(0, 0);
	free(data);
	buf_release(&body);
}

static bool is_file(const char *name)
{
	struct buf path = BUF_INIT;
	bool there;

	buf_addf(&path, "%s/registry.db.blobs/%.2s/%s", place, name, name + 2);
	there = access(path.data, F_OK) == 0;
	buf_release(&path);
	return there;
}

/* Blobs go when their time is over, but not while a cluster lives; and what a killed registry had
 * named for nobody goes at the start. */
static void keeps(void)
{
	char name[BLOB_NAME_MAX], orphan[BLOB_NAME_MAX], path[200];

	snprintf(orphan, sizeof orphan, "%s", name_of("orphan", 6));
	snprintf(path, sizeof path, "registry.db.blobs/%.2s/%s", orphan, orphan + 2);
	CHECK(io_create(in_place(path), "orphan", 6, 0600) == 0);
	stop();
	start(0, 1500);
	CHECK(!is_file(orphan));
	sql("UPDATE clusters SET live = 1");
	snprintf(name, sizeof name, "%s", name_of("kept", 4));
	CHECK_I64(201, ask("PUT", path_of(name, ""), &customer, "kept", 4, NULL));
	CHECK_I64(201,
		ask("PUT", path_of(name_of("gone", 4), ""), &other, "gone", 4, NULL));
	CHECK_I64(201, ask("PUT", path_of(name, ""), &other, "kept", 4, NULL));
	snprintf(orphan, sizeof orphan, "%s", name_of("gone", 4));
	for (int i = 0; i < 6000 && is_file(orphan); i++) {
		blobs_tick(&registry);
		usleep(10000);
	}
	CHECK(!is_file(orphan));
	CHECK_I64(404, ask("GET", path_of(orphan, ""), &other, NULL, 0, NULL));
	/* sent a moment later, it may go with the next sweep */
	for (int i = 0;
		i < 6000 && ask("GET", path_of(name, ""), &other, NULL, 0, NULL) == 200;
		i++) {
		blobs_tick(&registry);
		usleep(10000);
	}
	CHECK_I64(404, ask("GET", path_of(name, ""), &other, NULL, 0, NULL));
	CHECK_I64(200, ask("GET", path_of(name, ""), &customer, NULL, 0, NULL));
	sql("UPDATE clusters SET live = 0");
	for (int i = 0; i < 6000 && is_file(name); i++) {
		blobs_tick(&registry);
		usleep(10000);
	}
	CHECK_I64(404, ask("GET", path_of(name, ""), &customer, NULL, 0, NULL));
}

int main(void)
{
	make_keys();
	start(0, 0);
	make_market();
	whose_they_are();
	directories();
	artifacts();
	next_artifacts();
	goes_on();
	stop();
	start(2 << 20, 0);
	quota_at_once();
	quota();
	no_space();
	keeps();
	stop();
	clean_up();
	TEST_END();
}
