/* comm_nccl.c - stands for librnp_nccl.so in tests with the emulated GPU, whose memory is the
 * host's: sums over abstract sockets, by rank 0. FAKE_NCCL_FAILS=N: rank N cannot open it.
 * FAKE_NCCL_LOG: a file that gets the floats of each sum. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/comm/plugin.h"

#define RANKS_MAX 16

struct state {
	int rank, size, fds[RANKS_MAX]; /* of rank 0: to all; else [0] */
	FILE *log;
};

static int failed(char *why, const char *what)
{
	snprintf(why, COMM_PLUGIN_WHY, "fake: cannot %s", what);
	return -1;
}

static int fake_unique(unsigned char *unique, char *why)
{
	(void)why;
	memset(unique, 0, COMM_UNIQUE_BYTES);
	snprintf((char *)unique + 1, 64, "rnp-fake-nccl-%d", (int)getpid());
	return 0;
}

static socklen_t place(struct sockaddr_un *a, const unsigned char *unique)
{
	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, unique, 65);
	return offsetof(struct sockaddr_un, sun_path) + 65;
}

static int whole(int fd, void *data, size_t bytes, int sending)
{
	char *at = data;

	while (bytes) {
		ssize_t n = sending ? send(fd, at, bytes, MSG_NOSIGNAL) :
				      recv(fd, at, bytes, 0);

		if (n <= 0)
			return -1;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int meet(struct state *s, const unsigned char *unique)
{
	struct sockaddr_un a;
	socklen_t len = place(&a, unique);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (s->rank == 0) {
		if (bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, RANKS_MAX) < 0)
			return -1;
		for (int i = 1; i < s->size; i++) {
			int other = accept(fd, NULL, NULL), rank;

			if (other < 0 || whole(other, &rank, sizeof rank, 0) < 0)
				return -1;
			s->fds[rank] = other;
		}
		close(fd);
		return 0;
	}
	for (int i = 0; connect(fd, (struct sockaddr *)&a, len) < 0; i++) {
		struct timespec pause = { 0, 10000000 };

		if (i == 2000)
			return -1;
		nanosleep(&pause, NULL);
	}
	s->fds[0] = fd;
	return whole(fd, &s->rank, sizeof s->rank, 1);
}

static int fake_open(void **state, int *rank, int *size,
	const struct comm_plugin_start *start, char *why)
{
	const char *fails = getenv("FAKE_NCCL_FAILS"), *log = getenv("FAKE_NCCL_LOG");
	struct state *s;

	/* the others would wait for it, as NCCL does until it has lost the connection: here
	 * they all fail */
	if (fails)
		return atoi(fails) == start->rank ? failed(why, "open") :
						    failed(why, "meet");
	s = calloc(1, sizeof *s);
	s->rank = *rank = start->rank;
	s->size = *size = start->size;
	if (meet(s, start->unique) < 0)
		return failed(why, "meet");
	s->log = log && s->rank == 0 ? fopen(log, "w") : NULL;
	*state = s;
	return 0;
}

static int fake_allreduce(void *state, float *data, size_t n, char *why)
{
	struct state *s = state;
	float *other = malloc(n * sizeof *other);
	int rc = 0;

	if (s->log) {
		fprintf(s->log, "%zu\n", n);
		fflush(s->log);
	}
	if (s->rank)
		rc = whole(s->fds[0], data, n * sizeof *data, 1) < 0 ||
				whole(s->fds[0], data, n * sizeof *data, 0) < 0 ?
			-1 :
			0;
	for (int r = 1; s->rank == 0 && rc == 0 && r < s->size; r++) {
		rc = whole(s->fds[r], other, n * sizeof *other, 0);
		for (size_t i = 0; rc == 0 && i < n; i++)
			data[i] += other[i];
	}
	for (int r = 1; s->rank == 0 && rc == 0 && r < s->size; r++)
		rc = whole(s->fds[r], data, n * sizeof *data, 1);
	free(other);
	return rc < 0 ? failed(why, "sum: a rank is gone") : 0;
}

static int fake_send(void *state, int to, const void *data, size_t bytes, char *why)
{
	(void)state, (void)to, (void)data, (void)bytes;
	return failed(why, "send");
}

static int fake_receive(void *state, int from, void *data, size_t bytes, char *why)
{
	(void)state, (void)from, (void)data, (void)bytes;
	return failed(why, "receive");
}

static int fake_sendrecv(void *state, const struct comm_sendrecv *w, char *why)
{
	(void)state, (void)w;
	return failed(why, "sendrecv");
}

static void fake_close(void *state)
{
	struct state *s = state;

	for (int r = 0; r < s->size; r++)
		if (s->fds[r] > 0)
			close(s->fds[r]);
	if (s->log)
		fclose(s->log);
	free(s);
}

const struct comm_plugin *rnp_comm_plugin(void)
{
	static const struct comm_plugin plugin = { .abi = COMM_PLUGIN_ABI,
		.name = "nccl",
		.unique = fake_unique,
		.open = fake_open,
		.send = fake_send,
		.receive = fake_receive,
		.sendrecv = fake_sendrecv,
		.allreduce = fake_allreduce,
		.close = fake_close };

	return &plugin;
}
