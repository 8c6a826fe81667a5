/* mem.c - growth that doubles, arenas that align and zero. */
#include "common/base/mem.h"

#include <stdalign.h>
#include <stdlib.h>

#include "tests/unit/test.h"

static void check_plain(void)
{
	char *empty = xmalloc(0), *none = xcalloc(0, 8), *text = xstrndup("abcdef", 3);
	char *zeros = xcalloc(3, 5);

	CHECK(empty != NULL && none != NULL);
	CHECK_TEXT("abc", text);
	for (int i = 0; i < 15; i++)
		CHECK(zeros[i] == 0);
	text = xrealloc(text, 0);
	CHECK(text != NULL);
	free(empty);
	free(none);
	free(text);
	free(zeros);
	text = xstrdup("");
	CHECK_TEXT("", text);
	free(text);
}

static void check_grow(void)
{
	size_t cap = 0, moves = 0, before = 0;
	int *numbers = NULL;

	for (int i = 0; i < 100000; i++) {
		numbers = xgrow(numbers, &cap, (size_t)i + 1, sizeof *numbers);
		numbers[i] = i;
		moves += cap != before;
		before = cap;
	}
	CHECK(moves < 20 && cap >= 100000);
	CHECK(numbers[0] == 0 && numbers[99999] == 99999);
	numbers = xgrow(numbers, &cap, 1, sizeof *numbers);
	CHECK(cap == before);
	free(numbers);
}

static void check_arena(void)
{
	struct arena a = ARENA_INIT;
	static const size_t sizes[] = { 1, 0, 3, 17, 65536, 65537, 1 << 20, 5, 100 };
	char *all[64];

	arena_release(&a);
	for (size_t i = 0; i < 63; i++) {
		size_t n = sizes[i % 9];

		all[i] = arena_alloc(&a, n);
		CHECK((uintptr_t)all[i] % alignof(max_align_t) == 0);
		for (size_t k = 0; k < n; k++)
			if (all[i][k])
				CHECK(!"zeroed");
		memset(all[i], 0x55, n);
	}
	CHECK_TEXT("text", arena_strdup(&a, "text"));
	CHECK(all[4][65535] == 0x55 && all[13][65535] == 0x55);
	arena_release(&a);
	CHECK(a.last == NULL);
}

/* That it is drawn on: tests/unit/lm/engine/engine.c. */
static void check_reserve(void)
{
	CHECK(!mem_is_short() && !mem_ran_out());
	mem_reserve(3 << 20);
	CHECK(!mem_is_short() && !mem_ran_out());
	CHECK(mem_has_room(0) && mem_has_room(1 << 20));
	CHECK(!mem_has_room(SIZE_MAX / 4));
	CHECK(!mem_is_short());
	mem_reserve(0);
	CHECK(!mem_is_short() && !mem_ran_out());
}

int main(void)
{
	check_reserve();
	check_plain();
	check_grow();
	check_arena();
	TEST_END();
}
