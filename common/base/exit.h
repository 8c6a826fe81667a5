/* exit.h - the meaning of our exit codes: <sysexits.h>, and a clear "no". */
#ifndef RNP_COMMON_BASE_EXIT_H
#define RNP_COMMON_BASE_EXIT_H

#include <sysexits.h> /* EX_OK 0, EX_USAGE 64 ... EX_NOPERM 77 */

#define EXIT_NO 1 /* a clear no: bad signature, result differs, not eligible */

#endif
