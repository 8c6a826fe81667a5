/* ranks.c - packets between ranks: which pass, which do not, streams cut anywhere, bounded
 * queues; and the texts of a lease's SSH. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/agent/ranks.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/door.h"
#include "cmd/rnp-register/agent/talk.h"
#include "common/base/io.h"
#include "tests/unit/test.h"

#define OWN   UINT32_C(0x0a400001)
#define OTHER UINT32_C(0x0a400002)
#define THIRD UINT32_C(0x0a400003)

static void put_word(unsigned char *p, uint32_t v)
{
	p[0] = (unsigned char)(v >> 24), p[1] = (unsigned char)(v >> 16);
	p[2] = (unsigned char)(v >> 8), p[3] = (unsigned char)v;
}

/* A packet of len bytes. */
static unsigned char *packet(uint32_t from, uint32_t to, size_t len)
{
	static unsigned char p[65536];

	memset(p, 7, sizeof p);
	p[0] = 0x45;
	p[2] = (unsigned char)(len >> 8), p[3] = (unsigned char)len;
	put_word(p + 12, from);
	put_word(p + 16, to);
	return p;
}

static struct ranks_peer peers[2];
static struct ranks ranks;

static void reset(void)
{
	for (int i = 0; i < 2; i++)
		buf_release(&peers[i].queue);
	memset(peers, 0, sizeof peers);
	peers[0].address = OTHER, peers[1].address = THIRD;
	/* never written to here */
	peers[0].in = peers[0].out = 1000;
	peers[1].in = peers[1].out = -1;
	ranks = (struct ranks){ .address = OWN, .tun = -1, .peers = peers, .npeers = 2 };
}

static void sending(void)
{
	static const size_t bad[] = { 0, 1, 19, RANKS_MTU + 1 };
	unsigned char *p;

	reset();
	ranks_send(&ranks, packet(OWN, OTHER, 100), 100);
	CHECK_I64(102, (int64_t)peers[0].queue.len);
	CHECK(peers[0].queue.data[0] == 0 && peers[0].queue.data[1] == 100);
	/* another's address, to itself, to nobody, to one without a stream */
	ranks_send(&ranks, packet(THIRD, OTHER, 100), 100);
	ranks_send(&ranks, packet(OWN, OWN, 100), 100);
	ranks_send(&ranks, packet(OWN, 0x08080808, 100), 100);
	ranks_send(&ranks, packet(OWN, THIRD, 100), 100);
	CHECK_I64(1, (int64_t)peers[1].lost);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ranks_send(&ranks, packet(OWN, OTHER, bad[i]), bad[i]);
	ranks_send(&ranks, packet(OWN, OTHER, 101), 100);
	p = packet(OWN, OTHER, 100);
	p[0] = 0x65;
	ranks_send(&ranks, p, 100);
	p[0] = 0x44;
	ranks_send(&ranks, p, 100);
	CHECK_I64(102, (int64_t)peers[0].queue.len);
	for (int i = 0; i < 1000; i++)
		ranks_send(&ranks, packet(OWN, OTHER, RANKS_MTU), RANKS_MTU);
	CHECK(peers[0].queue.len <= RANKS_QUEUE_BYTES);
	CHECK(peers[0].queue.len > RANKS_QUEUE_BYTES - RANKS_MTU - 2);
	CHECK_I64(1001, (int64_t)(peers[0].lost + peers[0].packets_out));
}

static size_t emitted, emitted_bytes;

static void emit(void *ctx, const unsigned char *data, size_t len)
{
	(void)ctx, (void)data;
	emitted++;
	emitted_bytes += len;
}

/* Adds a packet to a stream. */
static void add(struct buf *stream, uint32_t from, uint32_t to, size_t len)
{
	unsigned char size[2] = { (unsigned char)(len >> 8), (unsigned char)len };

	buf_add(stream, size, 2);
	buf_add(stream, packet(from, to, len), len);
}

static void receiving(void)
{
	struct buf stream = BUF_INIT;

	add(&stream, OTHER, OWN, 20);
	add(&stream, OTHER, OWN, RANKS_MTU);
	add(&stream, THIRD, OWN, 60);   /* as another rank */
	add(&stream, OTHER, THIRD, 60); /* to be passed on */
	add(&stream, OTHER, OWN, 77);
	for (size_t cut = 1; cut < stream.len; cut += 13) {
		reset();
		emitted = emitted_bytes = 0;
		for (size_t at = 0; at < stream.len; at += cut) {
			size_t n = stream.len - at < cut ? stream.len - at : cut;

			CHECK(ranks_receive(&ranks, &peers[0],
				      (unsigned char *)stream.data + at, n, emit,
				      NULL) == 0);
		}
		CHECK_I64(3, (int64_t)emitted);
		CHECK_I64(20 + RANKS_MTU + 77, (int64_t)emitted_bytes);
		CHECK_I64(2, (int64_t)peers[0].refused);
	}
	buf_release(&stream);
	reset();
	CHECK(ranks_receive(&ranks, &peers[0], (const unsigned char *)"\0\23", 2, emit,
		      NULL) == -1);
	reset();
	CHECK(ranks_receive(&ranks, &peers[0], (const unsigned char *)"\5\25", 2, emit,
		      NULL) == -1);
	reset();
}

static void frames(void)
{
	static const char bytes[] =
		"\1\0\0\0\0\0\0\3abc\2\0\0\0\0\0\0\2de\1\0\0\0\0\0\0\1f";
	struct buf out = BUF_INIT, err = BUF_INIT;

	for (size_t cut = 1; cut < sizeof bytes; cut++) {
		struct talk_frames f = { 0 };

		buf_reset(&out);
		buf_reset(&err);
		for (size_t at = 0; at < sizeof bytes - 1; at += cut) {
			size_t left = sizeof bytes - 1 - at;

			CHECK(talk_frames_take(&f, (const unsigned char *)bytes + at,
				      left < cut ? left : cut, &out, &err) == 0);
		}
		CHECK_TEXT("abcf", out.data);
		CHECK_TEXT("de", err.data);
	}
	CHECK_FAILS(EX_UNAVAILABLE,
		talk_frames_take(&(struct talk_frames){ 0 },
			(const unsigned char *)"HTTP/1.1 ", 9, &out, &err));
	buf_release(&out);
	buf_release(&err);
}

#define KEY \
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBjkCF8qMxSyaL7nTgkHUwxSSHDqnZ41CvxeSNGTK3m"
#define NODE "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS"
#define RECORD(more)                                                                          \
	"{\"kind\":\"rnp.session\",\"v\":1,\"cluster\":\"00c0ffee00c0ffee00c0ffee00c0ffee\"," \
	"\"ranks\":3,\"rank\":1,\"number\":2,\"user\":\"rnp-session\","                       \
	"\"host_key_file\":\"/k\",\"gateway\":{\"host\":\"gate.example\",\"port\":22,"        \
	"\"user\":\"rnp-gateway\",\"host_key\":\"" KEY "\"},\"keys\":[\"" KEY                 \
	"\"]," more "}"
#define PEER(rank, number)                                          \
	"{\"rank\":" rank ",\"number\":" number ",\"node\":\"" NODE \
	"\",\"host_key\":\"" KEY "\"}"

static int read_file(struct session_file *f, const char *text)
{
	char path[] = "/tmp/rnp-session-XXXXXX";
	int fd = mkstemp(path), rc;

	CHECK(io_write_all(fd, text, strlen(text)) == 0);
	rc = session_file_read(f, path);
	unlink(path);
	close(fd);
	return rc;
}

static void door(void)
{
	unsigned char public_key[32] = { 1 };
	struct buf text = BUF_INIT;
	struct session_file f;
	const struct door d = { .file = &f,
		.directory = "/run/rnp/x",
		.program = "/usr/bin/rnp-register",
		.identity = "/proc/1/fd/3",
		.public_key = public_key };

	CHECK(read_file(&f,
		      RECORD("\"peers\":[" PEER("2", "9") "," PEER("0", "8") "]")) == 0);
	CHECK_I64(OWN + 12 * 1024 + 1, (int64_t)f.address);
	door_authorized_keys(&text, &d);
	/* the higher rank brings packets, the lower one is visited; each line has its command */
	CHECK(strstr(text.data,
		"restrict,command=\"/usr/bin/rnp-register session --dir "
		"/run/rnp/x --rank 2\" ssh-ed25519 "));
	CHECK(!strstr(text.data, "--rank 0"));
	CHECK(strstr(text.data,
		"restrict,pty,port-forwarding,permitlisten=\"127.0.0.1:1\","
		"command=\"/usr/bin/rnp-register session --dir /run/rnp/x\" " KEY "\n"));
	buf_reset(&text);
	door_ssh_config(&text, &d);
	CHECK(strstr(text.data, "Host rank-0\n  HostName 127.1.0.8\n  Port 2200\n"));
	CHECK(strstr(text.data, "StrictHostKeyChecking yes\n"));
	buf_reset(&text);
	door_known_hosts(&text, &d, &f.gateway_key);
	CHECK(strstr(text.data, "rnp-rank-2 " KEY "\n") &&
		strstr(text.data, "rnp-gateway " KEY));
	buf_release(&text);
	session_file_release(&f);
	/* nothing that would be another line, word or option */
	CHECK_FAILS(EX_DATAERR, read_file(&f, RECORD("\"netns\":\"/a\\n b\"")));
	CHECK_FAILS(EX_DATAERR, read_file(&f, RECORD("\"container\":\"-x\"")));
	CHECK_FAILS(EX_DATAERR, read_file(&f, RECORD("\"peers\":[" PEER("1", "9") "]")));
	CHECK_FAILS(EX_DATAERR, read_file(&f, RECORD("\"peers\":[" PEER("3", "9") "]")));
	CHECK_FAILS(EX_DATAERR, read_file(&f, RECORD("\"peers\":7")));
}

int main(void)
{
	CHECK(sodium_init() >= 0);
	sending();
	receiving();
	frames();
	door();
	TEST_END();
}
