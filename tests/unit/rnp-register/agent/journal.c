/* journal.c - what an agent's journal keeps: one lease a device, slots, events in their order, and
 * all of it after a kill. And the words and bodies of the engine that need no container. */
/* uses: cmd/rnp-register */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/agent/journal.h"
#include "cmd/rnp-register/agent/log_lines.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-journal-XXXXXX";
static int seen;

static struct lease_row lease(const char *id)
{
	struct lease_row r = { .state = LEASE_RESERVED, .exit = -1 };

	snprintf(r.id, sizeof r.id, "%s", id);
	snprintf(r.cluster, sizeof r.cluster, "%s", id);
	snprintf(r.booking, sizeof r.booking, "booking %s", id);
	return r;
}

static int note(void *ctx, const struct lease_row *row, const char *assignment)
{
	struct lease_row *last = ctx;

	*last = *row;
	CHECK_TEXT("{}", assignment);
	seen++;
	return 0;
}

static void check_leases(struct journal *j)
{
	const char *one[] = { "GPU-a1", "GPU-a2" }, *two[] = { "GPU-a2" },
		   *spelled[] = { "gpu-A2" }, *three[] = { "GPU-a3" };
	struct lease_row a = lease("a"), b = lease("b"), c = lease("c"),
			 again = lease("a"), renamed = lease("d");

	CHECK(journal_take(j, &a, "{}", one, 2) == 0);
	CHECK_FAILS(EXIT_NO, journal_take(j, &b, "{}", two, 1));
	CHECK_FAILS(EXIT_NO, journal_take(j, &b, "{}", spelled, 1));
	CHECK(journal_take(j, &c, "{}", three, 1) == 0);
	CHECK_I64(0, a.slot);
	CHECK_I64(1, c.slot);
	a.state = LEASE_RELEASED;
	CHECK(journal_put(j, &a, NULL) == 0);
	/* its devices and its slot are free, and it is never taken twice */
	CHECK_FAILS(EXIT_NO, journal_take(j, &again, "{}", one, 2));
	/* nor under another name: a booking is for one lease a rank and turn */
	snprintf(renamed.booking, sizeof renamed.booking, "%s", a.booking);
	CHECK_FAILS(EXIT_NO, journal_take(j, &renamed, "{}", one, 2));
	CHECK(journal_take(j, &b, "{}", two, 1) == 0);
	CHECK_I64(0, b.slot);
	b.ready_ms = 12345;
	b.state = LEASE_READY;
	b.log_sent = 7;
	b.gone = true;
	CHECK(journal_put(j, &b, NULL) == 0);
}

static void check_kept(struct journal *j)
{
	struct lease_row last = { 0 };

	CHECK(journal_each(j, note, &last) == 0);
	CHECK_I64(2, seen);
	CHECK_TEXT("c", last.id);
	last = lease("b");
	CHECK_I64(0, journal_is_waiting(j, "b"));
	last.seq = 1;
	CHECK(journal_put(j, &last, "one") == 0);
	CHECK(journal_put(j, &last, "two") == 0);
	CHECK_I64(1, journal_is_waiting(j, "b"));
}

static void check_events(struct journal *j)
{
	struct buf text = BUF_INIT;
	char id[LEASE_ID_MAX];
	int64_t n = 0;

	CHECK_I64(1, journal_next_event(j, 0, &n, id, &text));
	CHECK_TEXT("one", buf_text(&text));
	CHECK(journal_ack(j, n) == 0);
	CHECK_I64(1, journal_next_event(j, 0, &n, id, &text));
	CHECK_TEXT("two", buf_text(&text));
	CHECK(journal_ack(j, n) == 0);
	CHECK_I64(0, journal_next_event(j, 0, &n, id, &text));
	buf_release(&text);
}

/* --- the engine, without a container ---------------------------------------------------------- */

static void check_names(void)
{
	static const char digest[] =
		"@sha256:0000000000000000000000000000000000000000000000000000000000000001";
	struct image_name n;
	char text[200];

	snprintf(text, sizeof text, "debian%s", digest);
	CHECK(image_name_parse(&n, text) == 0);
	CHECK_TEXT("docker.io", n.host);
	CHECK_TEXT("library/debian", n.path);
	snprintf(text, sizeof text, "ghcr.io/a/b:v1%s", digest);
	CHECK(image_name_parse(&n, text) == 0 && !n.local);
	CHECK_TEXT("ghcr.io", n.host);
	CHECK_TEXT("a/b", n.path);
	snprintf(text, sizeof text, "127.0.0.1:5000/a%s", digest);
	CHECK(image_name_parse(&n, text) == 0 && n.local);
	CHECK_FAILS(EX_DATAERR, image_name_parse(&n, "debian:12"));
	CHECK_FAILS(EX_DATAERR, image_name_parse(&n, "debian@sha256:1"));
	snprintf(text, sizeof text, "ghcr.io/a//b%s", digest);
	CHECK_FAILS(EX_DATAERR, image_name_parse(&n, text));
	snprintf(text, sizeof text, "ghcr.io/A%s", digest);
	CHECK_FAILS(EX_DATAERR, image_name_parse(&n, text));
}

static void check_words(void)
{
	struct engine_pull p = { .layers = 2,
		.layers_total = 7,
		.bytes = 1300000000,
		.bytes_total = 3100000000,
		.bytes_per_s = 18000000 };
	struct buf out = BUF_INIT;

	engine_pull_words(&out, &p);
	CHECK_TEXT("2 of 7 layers, 1.3 of 3.1 GB, 18 MB/s", buf_text(&out));
	buf_reset(&out);
	engine_pull_words(&out, &(struct engine_pull){ .bytes = 1500 });
	CHECK_TEXT("1.5 kB", buf_text(&out));
	buf_reset(&out);
	CHECK_I64(29,
		(int64_t)log_lines_read(&out, "2026-11-29T07 stdout F hello\n2026", 33));
	CHECK_TEXT("hello\n", buf_text(&out));
	buf_release(&out);
}

/* A container without limits, or without users of its own, is never asked for. */
static void check_spec(void)
{
	struct engine_spec s = { .name = "n",
		.image = "i",
		.first_id = 1000,
		.ids = 10,
		.memory_bytes = 1,
		.cpu_millis = 1,
		.pids = 1,
		.files = 1 };
	json_t *o = podman_spec(&s);

	CHECK(json_is_true(json_object_get(o, "no_new_privileges")));
	CHECK_TEXT("none",
		json_string_value(
			json_object_get(json_object_get(o, "netns"), "nsmode")));
	CHECK_I64(8, (int64_t)json_array_size(json_object_get(o, "cap_add")));
	json_decref(o);
	s.ids = 0;
	CHECK(podman_spec(&s) == NULL);
	s.ids = 10;
	s.pids = 0;
	CHECK(podman_spec(&s) == NULL);
	err_clear();
}

int main(void)
{
	struct journal j = JOURNAL_INIT, other = JOURNAL_INIT;
	char command[100];

	if (!mkdtemp(dir))
		return 1;
	CHECK(journal_open(&j, dir) == 0);
	CHECK_FAILS(EX_TEMPFAIL, journal_open(&other, dir));
	check_leases(&j);
	journal_close(&j);
	CHECK(journal_open(&j, dir) == 0);
	check_kept(&j);
	journal_close(&j);
	CHECK(journal_open(&j, dir) == 0);
	check_events(&j);
	journal_close(&j);
	check_names();
	check_words();
	check_spec();
	snprintf(command, sizeof command, "rm -rf %s", dir);
	CHECK(system(command) == 0);
	TEST_END();
}
