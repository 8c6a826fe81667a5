/* mpi_pairs.c - benchmark of the mpi backend of comm.h against bare MPI calls within one job:
 * ping-pong as in the OSU benchmarks, and all-reduce, in pairs one after the other. It is built
 * with mpicc by tests/bench/messages-mpi. Prints "test bytes ns_of_ours ratio_ppm" for each
 * pair. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/comm/comm.h"
#include "common/base/err.h"

#define PAIRS     10
#define SAMPLE_NS 30e6
#define BYTES_MAX ((size_t)64 << 20)

static const size_t sizes[] = { 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20,
	BYTES_MAX };

static struct comm ranks;
static char *buffer;

static void ours_pingpong(size_t bytes)
{
	int rc = ranks.rank ? comm_receive(&ranks, 0, buffer, bytes) :
			      comm_send(&ranks, 1, buffer, bytes);

	if (rc == 0)
		rc = ranks.rank ? comm_send(&ranks, 0, buffer, bytes) :
				  comm_receive(&ranks, 1, buffer, bytes);
	if (rc < 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static void bare_pingpong(size_t bytes)
{
	if (ranks.rank) {
		MPI_Recv(buffer, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
		MPI_Send(buffer, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	} else {
		MPI_Send(buffer, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(buffer, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	}
}

static void ours_allreduce(size_t bytes)
{
	if (comm_allreduce(&ranks, (float *)(void *)buffer, bytes / sizeof(float)) < 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static void bare_allreduce(size_t bytes)
{
	MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(bytes / sizeof(float)), MPI_FLOAT,
		MPI_SUM, MPI_COMM_WORLD);
}

static double time_of(void (*fn)(size_t), size_t bytes, int reps)
{
	double from;

	MPI_Barrier(MPI_COMM_WORLD);
	from = MPI_Wtime();
	for (int i = 0; i < reps; i++)
		fn(bytes);
	return (MPI_Wtime() - from) / reps * 1e9;
}

static void pairs(const char *name, void (*ours)(size_t), void (*bare)(size_t),
	size_t bytes)
{
	int reps;

	time_of(ours, bytes, 1);
	time_of(bare, bytes, 1);
	reps = (int)(SAMPLE_NS / time_of(bare, bytes, 2)) + 1;
	MPI_Bcast(&reps, 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int k = 0; k < PAIRS; k++) {
		double theirs = time_of(bare, bytes, reps);
		double mine = time_of(ours, bytes, reps);

		if (!ranks.rank)
			printf("%s %zu %.0f %.0f\n", name, bytes, mine,
				1e6 * theirs / mine);
	}
}

int main(void)
{
	if (comm_mpi_open(&ranks) < 0) {
		fprintf(stderr, "mpi_pairs: %s\n", err_get()->text);
		return 1;
	}
	buffer = calloc(1, BYTES_MAX);
	memset(buffer, 0, BYTES_MAX);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		pairs("pingpong", ours_pingpong, bare_pingpong, sizes[i]);
		pairs("allreduce", ours_allreduce, bare_allreduce, sizes[i]);
	}
	free(buffer);
	comm_close(&ranks);
	return 0;
}
