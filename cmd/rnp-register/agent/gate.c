/* gate.c - a program of its own, and the first in each container:
 *
 *     gate GO NEWS PROGRAM [ARGUMENT...]
 *
 * waits until the file GO is there, looking whenever there is something to read from the pipe NEWS,
 * then becomes PROGRAM. Until then nothing of the customer's image is executed, which nobody pays
 * for. SIGTERM ends it. Without arguments it ends with 0: a session tries it.
 *
 * It is linked with nothing, so that it runs in every image and fits into the agent (sandbox.c),
 * which writes it out: hence no libc, and system calls by hand. */
#include "cmd/rnp-register/agent/gate.h"

#include <fcntl.h>
#include <linux/time_types.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#define ENDED    143 /* as a shell says of SIGTERM */
#define NO_START 127
#define RESTORER 0x04000000 /* SA_RESTORER, which libc keeps to itself */

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall gate\n");

static long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return rc;
}
#else /* aarch64 */
__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl gate\n");

static long call(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
}
#endif

/* What rt_sigaction takes. */
struct action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

__attribute__((noreturn)) static void leave(long code)
{
	for (;;)
		call(SYS_exit_group, code, 0, 0, 0);
}

static void on_term(int number)
{
	(void)number;
	leave(ENDED);
}

/* Never called: the handler does not return. */
static void restore(void)
{
}

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

static void say(const char *text)
{
	call(SYS_write, 2, (long)text, (long)length(text), 0);
}

/* Waits for something to read. Nobody holds the pipe while the agent is away. */
static void wait_for(const char *news)
{
	struct __kernel_timespec second = { .tv_sec = 1 };
	char byte;
	long fd = call(SYS_openat, AT_FDCWD, (long)news, O_RDONLY, 0), got = 0;

	if (fd >= 0) {
		got = call(SYS_read, fd, (long)&byte, 1, 0);
		call(SYS_close, fd, 0, 0, 0);
	}
	if (got <= 0)
		call(SYS_nanosleep, (long)&second, 0, 0, 0);
}

/* The stack as the kernel leaves it: the count, the arguments, the environment. */
__attribute__((noreturn, used)) void gate(long *stack);
void gate(long *stack)
{
	struct action term = { on_term, RESTORER, restore, 0 };
	char **args = (char **)(stack + 1), **env = args + stack[0] + 1;

	if (stack[0] < 4)
		leave(0);
	call(SYS_rt_sigaction, SIGTERM, (long)&term, 0, sizeof term.mask);
	while (call(SYS_faccessat, AT_FDCWD, (long)args[1], 0, 0) < 0)
		wait_for(args[2]);
	call(SYS_execve, (long)args[3], (long)(args + 3), (long)env, 0);
	say("the image has no program ");
	say(args[3]);
	say(" that runs here\n");
	leave(NO_START);
}
