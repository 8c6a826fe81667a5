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
	CHECK_TEXT("records [########################] 100%  1 MB/s  0 s left", text);
	/* the rate is that of the last seconds, whatever was before */
	p.from = (struct progress_mark){ 1000000, INT64_C(100000000000) };
	progress_text(text, sizeof text, &p, 2000000, INT64_C(110000000000));
	CHECK_TEXT("records [############............] 50%  100 kB/s  20 s left", text);
	progress_note(&p, "loss %.2f", 3.214);
	progress_text(text, sizeof text, &p, 1010000, INT64_C(110000000000));
	CHECK_TEXT(
		"records [######..................] 25%  1 kB/s  49 min 50 s left, loss 3.21",
		text);
	/* what means nothing to people has no rate */
	p.unit = "";
	progress_text(text, sizeof text, &p, 1010000, INT64_C(110000000000));
	CHECK_TEXT("records [######..................] 25%  49 min 50 s left, loss 3.21",
		text);
	/* of what does not fit, nothing is left: never half a word */
	progress_note(&p, "loss 3.296, 23.1 k tokens/s");
	progress_text(text, 80, &p, 2640000, INT64_C(182000000000));
	CHECK_TEXT("records [######....] 66%  68 s left, loss 3.296, 23.1 k tokens/s",
		text);
	progress_text(text, 64, &p, 2640000, INT64_C(182000000000));
	CHECK_TEXT("records [######....] 66%  68 s left, loss 3.296", text);
	progress_text(text, 20, &p, 2640000, INT64_C(182000000000));
	CHECK_TEXT("records 66%", text);
	p.unit = "tokens";
	p.note[0] = '\0';
	progress_text(text, 80, &p, 2640000, INT64_C(110000000000));
	CHECK_TEXT("records [######....] 66%  164 k tokens/s  8 s left", text);
	p.unit = "B";
	p.from = (struct progress_mark){ 0, 0 };
	p.note[0] = '\0';
	p.total = 0;
	progress_text(text, sizeof text, &p, 12345678, INT64_C(2000000000));
	CHECK_TEXT("records: 12.3 MB, 6.17 MB/s", text);
	TEST_END();
}
