/* mpi.c - the mpi backend of comm.h, built as librnp_mpi.so: uses MPI_COMM_WORLD of the
 * MPI that mpicc belongs to. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/comm/plugin.h"

#define TAG        7
#define PIECE_MAX  ((size_t)1 << 30) /* MPI counts in int */
#define FLOATS_MAX (PIECE_MAX / sizeof(float))

struct state {
	float *piece; /* receives what a sendrecv adds */
	size_t piece_bytes;
	bool patient;
};

static int failed(int code, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int len;

	MPI_Error_string(code, text, &len);
	snprintf(why, COMM_PLUGIN_WHY, "%.300s", text);
	return -1;
}

static int mpi_open(void **state, int *rank, int *size,
	const struct comm_plugin_start *start, char *why)
{
	struct state *s;
	int there, given, rc;

	(void)start;
	MPI_Initialized(&there);
	/* our programs have threads, one of which, this one, calls MPI */
	if (!there &&
		(rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given)) !=
			MPI_SUCCESS)
		return failed(rc, why);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
	s = calloc(1, sizeof *s);
	if (!s) {
		snprintf(why, COMM_PLUGIN_WHY, "out of memory");
		return -1;
	}
	*state = s;
	return 0;
}

static size_t piece_of(size_t bytes)
{
	return bytes < PIECE_MAX ? bytes : PIECE_MAX;
}

static int mpi_send(void *state, int to, const void *data, size_t bytes, char *why)
{
	const char *from = data;

	(void)state;
	do {
		size_t n = piece_of(bytes);
		int rc = MPI_Send(from, (int)n, MPI_BYTE, to, TAG, MPI_COMM_WORLD);

		if (rc != MPI_SUCCESS)
			return failed(rc, why);
		from += n;
		bytes -= n;
	} while (bytes);
	return 0;
}

/* A rank may wait for hours for what comes next: a patient one sleeps between tests, the longer the
 * longer it has waited. */
#define PAUSE_MIN_NS 20000
#define PAUSE_MAX_NS 2000000

static int receive_piece(const struct state *s, int from, void *data, int bytes)
{
	struct timespec pause = { 0, PAUSE_MIN_NS };
	MPI_Request r;
	int done = 0, rc;

	if (!s->patient)
		return MPI_Recv(data, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	rc = MPI_Irecv(data, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &r);
	while (rc == MPI_SUCCESS &&
		(rc = MPI_Test(&r, &done, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !done) {
		nanosleep(&pause, NULL);
		pause.tv_nsec += pause.tv_nsec / 8;
		if (pause.tv_nsec > PAUSE_MAX_NS)
			pause.tv_nsec = PAUSE_MAX_NS;
	}
	return rc;
}

static int mpi_receive(void *state, int from, void *data, size_t bytes, char *why)
{
	char *to = data;

	do {
		size_t n = piece_of(bytes);
		int rc = receive_piece(state, from, to, (int)n);

		if (rc != MPI_SUCCESS)
			return failed(rc, why);
		to += n;
		bytes -= n;
	} while (bytes);
	return 0;
}

/* Makes sure that there is memory for a piece to be added. */
static float *scratch(struct state *s, size_t bytes)
{
	float *more;

	if (bytes <= s->piece_bytes)
		return s->piece;
	more = realloc(s->piece, bytes);
	if (more) {
		s->piece = more;
		s->piece_bytes = bytes;
	}
	return more;
}

static int mpi_sendrecv(void *state, const struct comm_sendrecv *s, char *why)
{
	size_t out = 0, in = 0;

	do {
		size_t n_out = piece_of(s->out_bytes - out);
		size_t n_in = piece_of(s->in_bytes - in);
		void *to = s->add ? (void *)scratch(state, n_in) : (char *)s->in + in;
		int rc;

		if (!to && n_in) {
			snprintf(why, COMM_PLUGIN_WHY, "out of memory");
			return -1;
		}
		rc = MPI_Sendrecv((const char *)s->out + out, (int)n_out, MPI_BYTE, s->to,
			TAG, to, (int)n_in, MPI_BYTE, s->from, TAG, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS)
			return failed(rc, why);
		for (size_t i = 0; s->add && i < n_in / sizeof(float); i++)
			((float *)s->in)[in / sizeof(float) + i] += ((float *)to)[i];
		out += n_out;
		in += n_in;
	} while (out < s->out_bytes || in < s->in_bytes);
	return 0;
}

/* Waits without polling: a blocking MPI call polls until the slowest rank has come, and takes
 * half a core from the thread that computes on it; this one sleeps between tests. Short
 * messages come at the end of a step, when nobody computes. */
#define PATIENT_FLOATS ((size_t)64 << 10)
#define PAUSE_NS       50000

static int sum(const struct state *s, float *data, int n)
{
	const struct timespec pause = { 0, PAUSE_NS };
	MPI_Request r;
	int done = 0, rc;

	if (!s->patient || (size_t)n < PATIENT_FLOATS)
		return MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM,
			MPI_COMM_WORLD);
	rc = MPI_Iallreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
		&r);
	while (rc == MPI_SUCCESS &&
		(rc = MPI_Test(&r, &done, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !done)
		nanosleep(&pause, NULL);
	return rc;
}

static int mpi_allreduce(void *state, float *data, size_t n, char *why)
{
	while (n) {
		size_t piece = n < FLOATS_MAX ? n : FLOATS_MAX;
		int rc = sum(state, data, (int)piece);

		if (rc != MPI_SUCCESS)
			return failed(rc, why);
		data += piece;
		n -= piece;
	}
	return 0;
}

static void mpi_be_patient(void *state)
{
	struct state *s = state;

	s->patient = true;
}

static void mpi_close(void *state)
{
	struct state *s = state;
	int over;

	free(s->piece);
	free(s);
	MPI_Finalized(&over);
	if (!over)
		MPI_Finalize();
}

const struct comm_plugin *rnp_comm_plugin(void)
{
	static const struct comm_plugin plugin = { .abi = COMM_PLUGIN_ABI,
		.name = "mpi",
		.open = mpi_open,
		.send = mpi_send,
		.receive = mpi_receive,
		.sendrecv = mpi_sendrecv,
		.allreduce = mpi_allreduce,
		.be_patient = mpi_be_patient,
		.close = mpi_close };

	return &plugin;
}
