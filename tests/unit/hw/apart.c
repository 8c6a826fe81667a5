/* apart.c - what hangs or dies in a child ends there, what it told before stays, and nothing of
 * the parent is held open by it. */
#include "common/hw/apart.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/test.h"

struct told {
	int beats, hang_after, steps;
	int held_fd; /* of the parent; -1 once the child has found it closed */
	char how;    /* 'd': dies */
};

static void work(void *shared)
{
	struct told *t = shared;

	if (fcntl(t->held_fd, F_GETFD) < 0)
		t->held_fd = -1;
	for (; t->beats < t->steps; t->beats++) {
		if (t->beats == t->hang_after && t->how == 'd')
			abort();
		while (t->beats == t->hang_after)
			pause();
		apart_beat();
	}
}

int main(void)
{
	struct told *t = apart_memory(sizeof *t);
	int fds[2];

	CHECK(t && pipe(fds) == 0);
	*t = (struct told){ .steps = 3, .hang_after = -1, .held_fd = fds[1] };
	CHECK(apart_run(work, t, 60000, 60000) == APART_DONE);
	CHECK(t->beats == 3 && t->held_fd == -1);
	*t = (struct told){ .steps = 3, .hang_after = 2, .held_fd = fds[1] };
	CHECK(apart_run(work, t, 60000, 10) == APART_HANGS);
	CHECK(t->beats == 2);
	*t = (struct told){ .steps = 3, .hang_after = 0, .held_fd = fds[1] };
	CHECK(apart_run(work, t, 10, 60000) == APART_HANGS);
	*t = (struct told){ .steps = 3, .hang_after = 1, .how = 'd', .held_fd = fds[1] };
	CHECK(apart_run(work, t, 60000, 60000) == APART_DIED);
	CHECK(t->beats == 1);
	/* outside of a child nobody listens */
	apart_beat();
	apart_free(t, sizeof *t);
	TEST_END();
}
