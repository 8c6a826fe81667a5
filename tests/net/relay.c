/* relay - a bad network between two TUN devices: packets are delayed, jittered, lost, doubled and
 * reordered. For tests, on machines whose kernel has no netem.
 *
 * usage: relay A B [delay_ms jitter_ms loss_ppm double_ppm reorder_ppm seed]
 * A negative loss_ppm begins with SIGUSR1.
 *
 * Makes the TUN devices A and B, prints "ready" and carries packets between them until it is
 * killed; the devices may be moved into other network namespaces meanwhile. Each way a packet
 * waits delay_ms and up to jitter_ms more or less, but does not overtake others, except those
 * that are reordered: they go at once. What cannot be written is lost, as in a full queue. The
 * same seed loses the same packets of the same traffic. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_MAX = 2048, QUEUE_MAX = 20000 };

struct packet {
	int64_t at_ns;
	uint64_t order;
	int to, len;
	unsigned char data[PACKET_MAX];
};

static struct packet *heap[QUEUE_MAX];
static int queued;
static uint64_t order, state;
static int64_t last_ns[2]; /* when the last packet of each way goes */
static long delay_ms, jitter_ms, loss_ppm, double_ppm, reorder_ppm;

static volatile sig_atomic_t loses;

static void lose(int signal)
{
	(void)signal;
	loses = 1;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood 2014), as a number of millionths */
static long chance(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (long)((z ^ z >> 31) % 1000000);
}

static int before(const struct packet *a, const struct packet *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct packet *p)
{
	int i = queued++;

	for (; i && before(p, heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = p;
}

static struct packet *pop(void)
{
	struct packet *first = heap[0], *p = heap[--queued];
	int i = 0, child;

	while ((child = 2 * i + 1) < queued) {
		if (child + 1 < queued && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], p))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = p;
	return first;
}

/* Puts a packet that came in on device `from` into the queue. */
static void enqueue(int from, const unsigned char *data, int len)
{
	struct packet *p;
	int64_t at = now_ns();

	if (queued == QUEUE_MAX || !(p = malloc(sizeof *p)))
		return;
	if (chance() >= reorder_ppm) {
		at += delay_ms * 1000000 + jitter_ms * (2 * chance() - 1000000);
		if (at < last_ns[from])
			at = last_ns[from];
		last_ns[from] = at;
	}
	p->at_ns = at;
	p->order = order++;
	p->to = !from;
	p->len = len;
	memcpy(p->data, data, (size_t)len);
	push(p);
}

static int open_tun(const char *name)
{
	struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) {
		fprintf(stderr, "relay: %s: %s\n", name, strerror(errno));
		exit(1);
	}
	return fd;
}

/* Takes what is there on a device, at most so much that the other has its turn. */
static void take(int fd, int from)
{
	unsigned char data[PACKET_MAX];
	ssize_t len;

	for (int i = 0; i < 64 && (len = read(fd, data, sizeof data)) > 0; i++) {
		if (chance() < loss_ppm && loses)
			continue;
		enqueue(from, data, (int)len);
		if (chance() < double_ppm)
			enqueue(from, data, (int)len);
	}
}

static void send_due(const int fds[2])
{
	while (queued && heap[0]->at_ns <= now_ns()) {
		struct packet *p = pop();

		if (write(fds[p->to], p->data, (size_t)p->len) < 0 && errno == EBADFD)
			exit(1); /* the device is gone */
		free(p);
	}
}

static long argument(int argc, char **argv, int i)
{
	return argc > i ? atol(argv[i]) : 0;
}

int main(int argc, char **argv)
{
	int fds[2];

	if (argc < 3) {
		fprintf(stderr,
			"usage: relay A B [delay_ms jitter_ms loss_ppm double_ppm reorder_ppm seed]\n");
		return 64;
	}
	delay_ms = argument(argc, argv, 3);
	jitter_ms = argument(argc, argv, 4);
	loss_ppm = argument(argc, argv, 5);
	loses = loss_ppm > 0;
	if (loss_ppm < 0)
		loss_ppm = -loss_ppm;
	signal(SIGUSR1, lose);
	double_ppm = argument(argc, argv, 6);
	reorder_ppm = argument(argc, argv, 7);
	state = (uint64_t)argument(argc, argv, 8);
	fds[0] = open_tun(argv[1]);
	fds[1] = open_tun(argv[2]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd p[2] = { { fds[0], POLLIN, 0 }, { fds[1], POLLIN, 0 } };
		struct timespec wait = { 1, 0 };
		int64_t left = queued ? heap[0]->at_ns - now_ns() : 1000000000;

		if (left < 1000000000)
			wait = (struct timespec){ 0, left > 0 ? left : 0 };
		ppoll(p, 2, &wait, NULL);
		for (int i = 0; i < 2; i++)
			if (p[i].revents)
				take(fds[i], i);
		send_due(fds);
	}
}
