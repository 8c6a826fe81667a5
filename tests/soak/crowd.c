/* uses: cmd/rnp-bench */
/* crowd - many nodes in one process, honest ones or liars, against a registry on this machine.
 *
 *   crowd honest|liars PORT HONEST LIARS [FILE]
 *
 * Nodes are numbered, the honest ones first; this process is those of its role. Keys follow from
 * the numbers. Each node has an address of its own, in a block of its own (127.a.b.1), works to
 * join, sends heartbeats and answers its challenges, as its kind does; of several challenges the
 * one that is due first. The next node joins when the last one has nothing to answer. Runs until
 * SIGTERM. With FILE nobody sends a heartbeat before there is such a file, and 19 of 20 nodes join
 * before that. Writes "all have joined" to standard error, and in the end one object for each node,
 * with what it did and is owed. tests/soak/rehearsal holds that against what the registry signed.
 * It is long because each liar's way stands beside the honest one. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/poc/poc.h"
#include "common/record/key.h"
#include "common/record/signature.h"
#include "common/record/work.h"

#define BEAT_S     60
#define INTERVAL_S 90 /* what a heartbeat promises: a machine that is busy may be late */
#define SECOND     INT64_C(1000000000)
#define ANSWER_S   120
#define WAITED_S   5
#define FLOODS     20      /* answers that are none, to one challenge */
#define HELD_BYTES 8000000 /* of the answer that never ends; it sends 20 KB in 5 s */

/* The kinds of lies. */
enum kind {
	HONEST,
	SILENT,   /* heartbeats alone */
	NO_ROOTS, /* an answer that nothing was committed to */
	OTHER_ROOTS,
	REPLAY, /* the answer of an honest node, signed again */
	HALF,   /* half of the memory is zeros */
	SKIP,   /* a matrix is not the product */
	CHAIN,  /* a segment is invented */
	LATE,   /* the answer comes after its deadline */
	SWITCH, /* proves a CPU, then claims eight H200 */
	SLICES, /* GPUs in slices and without uuid beside an honest CPU */
	TWINS,  /* one uuid in two nodes */
	TINY,   /* an H200 of a gigabyte */
	BACKDATE, /* heartbeats of the last five minutes at once, that promise an hour each */
	HOLD,     /* an answer that never ends */
	FLOOD, /* answers by another key, as many as are taken */
	RENEW, /* never answers, and changes its record to be asked again at once */
	KINDS,
};

static const char *const kinds[KINDS] = { "honest", "silent", "no roots", "other roots",
	"replay", "half the memory", "skipped round", "invented segment", "late",
	"claims more later", "slices", "twins", "tiny H200", "back-dated", "never ends",
	"answers of another key", "new records" };

struct node {
	struct key key;
	enum kind kind;
	int number;
	bool joined;
	int64_t next_ns, hold_ns, due_ns, first_ms, last_ms;
	bool changed;
	int records; /* of RENEW */
	int held_fd; /* of HOLD; 0: none */
	int64_t fed_ns;
	char nonce[65]; /* of the challenge that was answered last */
	json_t *challenge;
	int64_t beats, refused, answers, answers_refused;
	int64_t late; /* challenges that this process came to only after WAITED_S */
	int64_t asked, taken; /* challenges; answers of FLOOD that were read */
};

static struct node *nodes;
static int count, port;
static volatile sig_atomic_t stopped;

static void die(const char *what)
{
	fprintf(stderr, "crowd: %s: %s\n", what,
		errno ? strerror(errno) : err_get()->text);
	exit(1);
}

/* --- HTTP ---------------------------------------------------------------------------------- */

static bool send_all(int fd, const char *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, data + at, len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static int dial(int number)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in us = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f010001u + ((uint32_t)number << 8)) };
	struct timeval limit = { 150, 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&us, sizeof us) < 0 ||
		connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
		die("connect");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	return fd;
}

/* Posts a text. Returns the status, 0 when the connection broke; *reply: the body as JSON, or
 * NULL. */
static int post_text(const struct node *n, const char *path, const char *text, size_t len,
	json_t **reply)
{
	struct buf head = BUF_INIT, in = BUF_INIT;
	int fd = dial(n->number), status = 0;
	const char *body;
	ssize_t got;

	*reply = NULL;
	buf_addf(&head,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		path, port, len);
	if (send_all(fd, head.data, head.len))
		(void)send_all(fd, text,
			len); /* what is refused may be refused before its end */
	shutdown(fd, SHUT_WR);
	while ((got = recv(fd, buf_reserve(&in, 65536), 65536, 0)) > 0)
		in.len += (size_t)got;
	close(fd);
	if (in.len > 12) {
		in.data[in.len] = '\0';
		status = atoi(in.data + 9);
		body = strstr(in.data, "\r\n\r\n");
		*reply = body ? json_parse_object(body + 4, strlen(body + 4), "reply") :
				NULL;
		err_clear();
	}
	buf_release(&head);
	buf_release(&in);
	return status;
}

/* Signs a record now and posts it. */
static int post(struct node *n, const char *path, json_t *record, int64_t at_ms,
	json_t **reply)
{
	struct buf text = BUF_INIT;
	int status;

	json_set_text(record, "node", n->key.address);
	json_set_time(record, "at", at_ms);
	json_object_del(record, "proof");
	if (signature_add(record, &n->key, at_ms / 1000 * 1000) < 0)
		die("sign");
	json_write(&text, record);
	status = post_text(n, path, text.data, text.len, reply);
	buf_release(&text);
	return status;
}

/* --- joining ------------------------------------------------------------------------------- */

static void add_gpus(json_t *record, int many, const char *model, int64_t memory,
	const char *uuid, bool mig)
{
	json_t *list = json_array();

	for (int i = 0; i < many; i++) {
		json_t *gpu = json_object();
		char text[80];

		json_set_text(gpu, "vendor", "NVIDIA");
		json_set_text(gpu, "model", model);
		json_set_i64(gpu, "memory_bytes", memory);
		if (mig)
			json_set_bool(gpu, "mig", true);
		snprintf(text, sizeof text, "%s-%d", uuid, i);
		if (*uuid)
			json_set_text(gpu, "uuid", text);
		json_push(list, gpu);
	}
	json_set(record, "gpus", list);
}

/* The hardware that the node claims; later: SWITCH's final claim. */
static json_t *claims(const struct node *n, bool later)
{
	json_t *record = json_record("rnp.node"), *cpu = json_object();
	char text[80];

	json_set_text(record, "wallet", n->key.address);
	snprintf(text, sizeof text, "%s %d", kinds[n->kind], n->records);
	json_set_text(record, "name", text);
	json_set_text(cpu, "model", "a core of somebody");
	json_set_i64(cpu, "cores", 1);
	json_set_i64(cpu, "threads", 1);
	json_set(record, "cpu", cpu);
	json_set_i64(record, "memory_bytes", (int64_t)256 << 20);
	snprintf(text, sizeof text, "GPU-%s", n->key.address);
	if (n->kind == SWITCH && later)
		add_gpus(record, 8, "NVIDIA H200", INT64_C(150754820096), text, false);
	else if (n->kind == SLICES && n->number % 2)
		add_gpus(record, 12, "NVIDIA H200", INT64_C(150754820096), text, true);
	else if (n->kind == SLICES)
		add_gpus(record, 2, "NVIDIA H200", INT64_C(150754820096), "", false);
	else if (n->kind == TWINS)
		add_gpus(record, 1, "NVIDIA L4", INT64_C(24152899584), "GPU-shared",
			false);
	else if (n->kind == TINY)
		add_gpus(record, 1, "NVIDIA H200", 1000000000, text, false);
	return record;
}

static int join(struct node *n, bool later)
{
	json_t *record = claims(n, later), *reply, *work;
	char path[WORK_TOKEN_MAX + 64];
	uint64_t number = 0;
	int status = post(n, "/v1/nodes", record, clock_now_ms(), &reply);

	work = json_object_get(reply, "work");
	if (status == 428 && work) {
		const char *token = json_string_value(json_object_get(work, "token"));

		if (!work_solve(token, n->key.address,
			    (int)json_integer_value(json_object_get(work, "bits")), 0,
			    UINT64_MAX, &number))
			die("work");
		snprintf(path, sizeof path, "/v1/nodes?work=%s.%llu", token,
			(unsigned long long)number);
		json_decref(reply);
		status = post(n, path, record, clock_now_ms(), &reply);
	}
	json_decref(reply);
	json_decref(record);
	return status;
}

/* --- heartbeats ---------------------------------------------------------------------------- */

static void take_reply(struct node *n, json_t *reply)
{
	json_t *challenge = json_object_get(reply, "challenge");
	const json_t *in = json_object_get(reply, "challenge_in_ms");
	const char *nonce = json_string_value(json_object_get(challenge, "nonce"));

	if (nonce && strcmp(nonce, n->nonce) != 0) {
		snprintf(n->nonce, sizeof n->nonce, "%s", nonce);
		json_decref(n->challenge);
		n->challenge = json_incref(challenge);
		n->hold_ns = clock_mono_ns();
		n->due_ns = n->hold_ns +
			json_integer_value(json_object_get(reply, "due_in_ms")) * 1000000;
		n->asked++;
		if (n->kind == LATE)
			n->hold_ns += (json_integer_value(json_object_get(challenge,
					       "deadline_ms")) +
					      2000) *
				1000000;
	}
	if (json_is_integer(in))
		n->next_ns = clock_mono_ns() + json_integer_value(in) * 1000000 +
			SECOND / 5;
}

static void beat_at(struct node *n, int64_t at_ms, int64_t interval_s)
{
	json_t *beat = json_record("rnp.heartbeat"), *reply;

	json_set_i64(beat, "interval_s", interval_s);
	json_set_text(beat, "state", "idle");
	if (post(n, "/v1/heartbeats", beat, at_ms, &reply) == 200) {
		n->beats++;
		n->first_ms = n->first_ms ? n->first_ms : clock_now_ms();
		n->last_ms = clock_now_ms();
	} else {
		n->refused++;
	}
	take_reply(n, reply);
	json_decref(reply);
	json_decref(beat);
}

static void beat(struct node *n)
{
	n->next_ns = clock_mono_ns() + BEAT_S * SECOND;
	if (n->kind == RENEW && n->asked && n->records < 20) {
		n->records++;
		(void)join(n, false);
	}
	if (n->kind != BACKDATE) {
		beat_at(n, clock_now_ms(), INTERVAL_S);
		return;
	}
	/* once; then only what brings the challenge */
	for (int i = 9; !n->beats && i > 0; i--)
		beat_at(n, clock_now_ms() - i * 30000, 3600);
	beat_at(n, clock_now_ms(), 1);
}

/* --- answers ------------------------------------------------------------------------------- */

static void on_step(void *ctx, const struct memfill *m)
{
	(void)ctx;
	memset(m->blocks, 0,
		(size_t)(m->lanes * m->per_slice) * MEMFILL_BYTES * MEMFILL_SLICES / 2);
}

static void on_round(void *ctx, int64_t t, int8_t *a, int64_t n)
{
	(void)ctx, (void)t;
	memset(a, 1, (size_t)(n * n / 2));
}

static void on_segment(void *ctx, int64_t segment, unsigned char state[POC_HASH_BYTES])
{
	(void)ctx;
	if (segment == 7)
		memset(state, 7, POC_HASH_BYTES);
}

static json_t *proof_of(const struct node *n, const struct poc_challenge *c)
{
	struct prove_hooks hooks = { .step = n->kind == HALF ? on_step : NULL,
		.round = n->kind == SKIP ? on_round : NULL,
		.segment = n->kind == CHAIN ? on_segment : NULL };
	json_t *answer;

	if (n->kind == REPLAY) {
		struct poc_challenge before = *c;
		char hex[2 * POC_HASH_BYTES + 1];

		before.nonce[0] ^= 1;
		answer = prove(&before, INT64_C(1) << 28, NULL);
		sodium_bin2hex(hex, sizeof hex, c->sha256, sizeof c->sha256);
		json_set_text(answer, "challenge_sha256", hex);
		return answer;
	}
	return prove(c, INT64_C(1) << 28, &hooks);
}

/* --- answers that are none ------------------------------------------------------------------ */

/* Begins an answer that never ends, or goes on with it. */
static void hold(struct node *n, const struct poc_challenge *c)
{
	static const char junk[20000] = "{\"kind\":\"rnp.answer\",\"x\":\"";
	char hex[2 * POC_HASH_BYTES + 1];
	struct buf head = BUF_INIT;

	n->fed_ns = clock_mono_ns();
	if (c && !n->held_fd) {
		sodium_bin2hex(hex, sizeof hex, c->sha256, sizeof c->sha256);
		n->held_fd = dial(n->number);
		buf_addf(&head,
			"POST /v1/answers?node=%s&challenge=%s HTTP/1.1\r\nHost: x\r\n"
			"Content-Length: %d\r\n\r\n",
			n->key.address, hex, HELD_BYTES);
		(void)send_all(n->held_fd, head.data, head.len);
		buf_release(&head);
	}
	if (n->held_fd && !send_all(n->held_fd, junk, sizeof junk)) {
		close(n->held_fd);
		n->held_fd = 0;
	}
}

/* Answers that somebody else has signed: each has to be read to the end to find out. */
static void flood(struct node *n, const struct poc_challenge *c)
{
	json_t *answer = json_record("rnp.answer"), *reply;
	char path[256], hex[2 * POC_HASH_BYTES + 1];
	struct buf text = BUF_INIT;
	const struct node *other = &nodes[n == nodes];

	sodium_bin2hex(hex, sizeof hex, c->sha256, sizeof c->sha256);
	json_set_text(answer, "challenge_sha256", hex);
	json_set_text(answer, "node", n->key.address);
	json_set_time(answer, "at", clock_now_ms());
	json_set(answer, "devices", json_array());
	for (int i = 0; i < 100000; i++)
		json_push_text(json_object_get(answer, "devices"), hex);
	if (signature_add(answer, &other->key, clock_now_ms()) < 0)
		die("sign");
	json_write(&text, answer);
	snprintf(path, sizeof path, "/v1/answers?node=%s&challenge=%s", n->key.address,
		hex);
	for (int i = 0; i < FLOODS; i++) {
		int status = post_text(n, path, text.data, text.len, &reply);

		n->taken += status == 400 || status == 401;
		json_decref(reply);
	}
	buf_release(&text);
	json_decref(answer);
}

/* Sends it until it is taken: the registry may have no room at present. */
static void send_answer(struct node *n, const struct poc_challenge *c, json_t *answer)
{
	int64_t until = clock_mono_ns() + ANSWER_S * SECOND;
	char path[256], hex[2 * POC_HASH_BYTES + 1];
	json_t *reply;
	int status;

	sodium_bin2hex(hex, sizeof hex, c->sha256, sizeof c->sha256);
	snprintf(path, sizeof path, "/v1/answers?node=%s&challenge=%s", n->key.address,
		hex);
	do {
		status = post(n, path, answer, clock_now_ms(), &reply);
		json_decref(reply);
		if (status == 503 || status == 429 || !status)
			usleep(500000);
	} while ((status == 503 || status == 429 || !status) && clock_mono_ns() < until);
	if (status == 200 || status == 201)
		n->answers++;
	else
		n->answers_refused++;
}

static void answer(struct node *n)
{
	struct poc_challenge c;
	json_t *answer, *roots, *reply, *challenge = n->challenge;

	n->challenge = NULL;
	n->late += clock_mono_ns() - n->hold_ns > WAITED_S * SECOND;
	if (poc_challenge_read(&c, challenge, "challenge") < 0)
		die("challenge");
	json_decref(challenge);
	if (n->kind == HOLD)
		hold(n, &c);
	else if (n->kind == FLOOD)
		flood(n, &c);
	/* a GPU is not here, so that nobody has an answer */
	if (n->kind == SILENT || n->kind == HOLD || n->kind == FLOOD ||
		n->kind == RENEW || c.ndevices > 1)
		return;
	answer = proof_of(n, &c);
	if (!answer)
		die("prove");
	if (n->kind != NO_ROOTS) {
		roots = poc_roots_write(&c, answer);
		if (n->kind == OTHER_ROOTS)
			json_set_text(roots, "roots_sha256",
				json_string_value(
					json_object_get(roots, "challenge_sha256")));
		post(n, "/v1/roots", roots, clock_now_ms(), &reply);
		json_decref(reply);
		json_decref(roots);
	}
	send_answer(n, &c, answer);
	json_decref(answer);
	/* in the last moment */
	if (n->kind == SWITCH && !n->changed)
		n->changed = join(n, true) < 300;
}

/* --- the crowd ----------------------------------------------------------------------------- */

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static void make_nodes(bool lie, int honest, int liars)
{
	for (int i = lie ? honest : 0; i < (lie ? honest + liars : honest); i++) {
		unsigned char seed[crypto_sign_SEEDBYTES] = "crowd",
			      secret[KEY_SECRET_BYTES];
		unsigned char public_key[KEY_PUBLIC_BYTES];
		struct node *n = &nodes[count++];

		memcpy(seed + 8, &i, sizeof i);
		crypto_sign_seed_keypair(public_key, secret, seed);
		if (key_from_secret(&n->key, secret) < 0)
			die("key");
		n->number = i;
		n->kind = i < honest ? HONEST : 1 + (i - honest) % (KINDS - 1);
	}
}

/* Does what is due. Returns whether anybody had something to answer. */
static bool go_round(void)
{
	struct node *first = NULL;

	for (int i = 0; i < count && !stopped; i++) {
		struct node *n = &nodes[i];
		int64_t now_ns = clock_mono_ns();

		if (n->joined && n->next_ns <= now_ns)
			beat(n);
		if (n->held_fd && n->fed_ns + 5 * SECOND <= now_ns)
			hold(n, NULL);
		if (n->challenge && n->hold_ns <= now_ns &&
			(!first || n->due_ns < first->due_ns))
			first = n;
	}
	if (first && !stopped)
		answer(first);
	return first;
}

static bool join_next(struct node *n)
{
	int status = join(n, false);

	n->joined = status == 201 || status == 200;
	if (!n->joined) {
		fprintf(stderr, "crowd: a node may not join: %d\n", status);
		sleep(1);
	}
	return n->joined;
}

static void join_before(const char *file)
{
	for (int i = 0; i < count && !stopped; i++)
		while (i % 20 && !stopped && !join_next(&nodes[i]))
			;
	fprintf(stderr, "crowd: 19 of 20 have joined\n");
	while (access(file, F_OK) < 0 && !stopped)
		usleep(100000);
	/* not all at once */
	for (int i = 0; i < count; i++)
		nodes[i].next_ns = clock_mono_ns() + BEAT_S * SECOND / count * i;
}

static void run(void)
{
	int next = 0;

	while (!stopped) {
		bool busy = go_round();

		if (!busy && next < count) {
			next += nodes[next].joined || join_next(&nodes[next]);
			if (next == count)
				fprintf(stderr, "crowd: all have joined\n");
		} else if (!busy) {
			usleep(20000);
		}
	}
}

static void report(void)
{
	for (int i = 0; i < count; i++) {
		const struct node *n = &nodes[i];

		if (n->joined)
			printf("{\"node\":\"%s\",\"kind\":\"%s\",\"number\":%d,\"beats\":%lld,"
			       "\"refused\":%lld,\"answers\":%lld,\"answers_refused\":%lld,\"late\":%lld,"
			       "\"asked\":%lld,\"taken\":%lld,\"first_ms\":%lld,\"last_ms\":%lld}\n",
				n->key.address, kinds[n->kind], n->number,
				(long long)n->beats, (long long)n->refused,
				(long long)n->answers, (long long)n->answers_refused,
				(long long)n->late, (long long)n->asked,
				(long long)n->taken, (long long)n->first_ms,
				(long long)n->last_ms);
	}
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_term };

	if (argc < 5 || argc > 6 || sodium_init() < 0) {
		fprintf(stderr, "usage: crowd honest|liars PORT HONEST LIARS [FILE]\n");
		return 64;
	}
	sigaction(SIGTERM, &act, NULL);
	port = atoi(argv[2]);
	nodes = xcalloc((size_t)(atoi(argv[3]) + atoi(argv[4])) + 2, sizeof *nodes);
	make_nodes(strcmp(argv[1], "liars") == 0, atoi(argv[3]), atoi(argv[4]));
	if (argc == 6)
		join_before(argv[5]);
	run();
	report();
	for (int i = 0; i < count; i++) {
		json_decref(nodes[i].challenge);
		key_release(&nodes[i].key);
	}
	free(nodes);
	return 0;
}
