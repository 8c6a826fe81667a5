/* messages-tcp.c - benchmark of the tcp backend of comm.h against a bare socket: ping-pong over
 * sizes, 10 pairs one after the other between the same two processes, and the all-reduce.
 * Prints records to standard output; exit 1 when the median of the ratios is below
 * OF_BARE_MIN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/record/bench.h"
#include "common/base/clock.h"
#include "common/comm/comm.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/base/stats.h"

#define PAIRS       10
#define OF_BARE_MIN 900000 /* ppm */
#define SAMPLE_NS   60000000
#define BYTES_MAX   ((size_t)64 << 20)
#define TIMEOUT_MS  10000

static const size_t sizes[] = { 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20,
	BYTES_MAX };
#define SIZES (sizeof sizes / sizeof *sizes)

static char *buffer;
static struct comm ranks;
static int bare, rank;

/* A bare ping-pong: blocking calls and nothing else. */
static void bare_move(bool out, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = out ? send(bare, buffer + done, bytes - done, 0) :
				  recv(bare, buffer + done, bytes - done, MSG_WAITALL);

		if (n <= 0)
			exit(EX_IOERR);
		done += (size_t)n;
	}
}

static void comm_move(bool out, size_t bytes)
{
	if ((out ? comm_send(&ranks, 1 - rank, buffer, bytes) :
		   comm_receive(&ranks, 1 - rank, buffer, bytes)) < 0) {
		fprintf(stderr, "comm: %s\n", err_get()->text);
		exit(EX_IOERR);
	}
}

/* returns the ns of one way */
static double pingpong(void (*move)(bool, size_t), size_t bytes, int reps)
{
	int64_t from = clock_mono_ns();

	for (int i = 0; i < reps; i++) {
		move(rank == 0, bytes);
		move(rank != 0, bytes);
	}
	return (double)(clock_mono_ns() - from) / reps / 2;
}

static double allreduce(size_t bytes, int reps)
{
	int64_t from = clock_mono_ns();

	for (int i = 0; i < reps; i++)
		if (comm_allreduce(&ranks, (float *)(void *)buffer,
			    bytes / sizeof(float)) < 0)
			exit(EX_IOERR);
	return (double)(clock_mono_ns() - from) / reps;
}

static void print(const char *test, size_t bytes, const char *unit, const struct stats *s)
{
	json_t *record = bench_record("comm", test, NULL, unit, s);
	struct buf line = BUF_INIT;

	json_set_i64(bench_params(record), "bytes", (int64_t)bytes);
	json_write(&line, record);
	puts(line.data);
	buf_release(&line);
	json_decref(record);
}

/* Both ranks make the same calls in the same order. */
static bool run(void)
{
	bool good = true;

	for (size_t i = 0; i < SIZES; i++) {
		double theirs[PAIRS], ours[PAIRS], sums[PAIRS];
		struct stats s;
		int32_t reps;

		pingpong(bare_move, sizes[i], 1);
		pingpong(comm_move, sizes[i], 1);
		reps = (int32_t)(SAMPLE_NS / pingpong(bare_move, sizes[i], 2) / 2) + 1;
		if (rank == 0)
			comm_send(&ranks, 1, &reps, sizeof reps);
		else
			comm_receive(&ranks, 0, &reps, sizeof reps);
		for (int k = 0; k < PAIRS; k++) {
			theirs[k] = pingpong(bare_move, sizes[i], reps);
			ours[k] = pingpong(comm_move, sizes[i], reps);
		}
		memset(buffer, 0, sizes[i]);
		allreduce(sizes[i], 1);
		for (int k = 0; k < PAIRS; k++)
			sums[k] = allreduce(sizes[i], reps / 2 + 1);
		if (rank)
			continue;
		stats_of(ours, PAIRS, &s);
		print("pingpong_tcp", sizes[i], "ns", &s);
		for (int k = 0; k < PAIRS; k++)
			ours[k] = 1e6 * theirs[k] / ours[k];
		stats_of(ours, PAIRS, &s);
		print("pingpong_of_bare_socket", sizes[i], "ppm", &s);
		good = good && s.median >= OF_BARE_MIN;
		stats_of(sums, PAIRS, &s);
		print("allreduce_tcp", sizes[i], "ns", &s);
	}
	return good;
}

static int connect_both(int port, int listening)
{
	int fds[2] = { -1, -1 };

	for (int i = 0; i < 2; i++) {
		int fd = rank ? net_connect("127.0.0.1", port, TIMEOUT_MS) :
				net_accept(listening, TIMEOUT_MS);

		if (fd < 0)
			return -1;
		if (i == 0)
			bare = fd;
		else
			fds[1 - rank] = fd;
	}
	return comm_tcp_from(&ranks, rank, 2, fds, TIMEOUT_MS);
}

int main(void)
{
	int port, status = 1, listening = net_listen("127.0.0.1:0", "listen", &port);
	bool good;
	pid_t child = fork();

	rank = child == 0;
	buffer = xcalloc(1, BYTES_MAX);
	memset(buffer, 1, BYTES_MAX);
	if (listening < 0 || child < 0 || connect_both(port, listening) < 0) {
		fprintf(stderr, "comm: %s\n", err_get()->text);
		return EX_OSERR;
	}
	good = run();
	comm_close(&ranks);
	free(buffer);
	if (rank)
		return 0;
	waitpid(child, &status, 0);
	if (!good)
		fprintf(stderr,
			"comm: tcp is more than 10%% slower than a bare socket\n");
	return !good || status;
}
