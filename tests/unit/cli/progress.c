/* progress.c - what the bar says. */
#include "common/cli/progress.h"

#include "tests/unit/test.h"

int main(void)
{
	struct progress p = { .what = "records", .unit = "B", .total = 4000000 };
	char text[100];

	progress_text(text, sizeof text, &p, 1000000, INT64_C(4000000000));
	CHECK_TEXT("records [######..................] 25%  250 kB/s  12 s left", text);
	progress_text(text, sizeof text, &p, 0, INT64_C(4000000000));
	CHECK_TEXT("records [........................]", text);
	progress_text(text, sizeof text, &p, 5000000, INT64_C(5000000000));
	CHECK_TEXT("records [########################] 100%  1.00 MB/s  0 s left", text);
	/* the rate is that of the last seconds, whatever was before */
	p.from = (struct progress_mark){ 1000000, INT64_C(100000000000) };
	progress_text(text, sizeof text, &p, 2000000, INT64_C(110000000000));
	CHECK_TEXT("records [############............] 50%  100 kB/s  20 s left", text);
	progress_note(&p, "loss %.2f", 3.214);
	progress_text(text, sizeof text, &p, 1010000, INT64_C(110000000000));
	CHECK_TEXT(
		"records [######..................] 25%  1.00 kB/s  49 min 50 s left, loss 3.21",
		text);
	p.from = (struct progress_mark){ 0, 0 };
	p.note[0] = '\0';
	p.total = 0;
	progress_text(text, sizeof text, &p, 12345678, INT64_C(2000000000));
	CHECK_TEXT("records: 12.3 MB, 6.17 MB/s", text);
	TEST_END();
}
