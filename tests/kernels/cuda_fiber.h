/* cuda_fiber.h - switches between the stacks of the emulation's lanes. Included by cuda_emu.c
 * only. */
#ifndef RNP_TESTS_KERNELS_CUDA_FIBER_H
#define RNP_TESTS_KERNELS_CUDA_FIBER_H

#include <string.h>

/* Where a stack goes on. swapcontext asks the kernel for the signal mask at each switch, which is
 * most of the time of an emulated kernel; where we know the registers that a function call keeps,
 * they alone are saved. */
#if defined(__x86_64__)
typedef void *emu_context;

void emu_switch(emu_context *from, emu_context to);
__asm__(".text\n"
	".globl emu_switch\n"
	".hidden emu_switch\n"
	".type emu_switch, @function\n"
	"emu_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size emu_switch, . - emu_switch\n");

#define SWITCH(from, to) emu_switch(from, *(to))

/* On an empty stack: six registers, where the switch returns to, and an address that nothing
 * returns to. */
static void context_at(emu_context *p, void *stack, size_t bytes, void (*function)(void))
{
	void **top = (void **)((char *)stack + bytes);

	memset(top - 8, 0, 8 * sizeof *top);
	top[-2] = (void *)function;
	*p = top - 8;
}
#else
#include <ucontext.h>
typedef ucontext_t emu_context;

#define SWITCH(from, to) swapcontext(from, to)

static void context_at(emu_context *p, void *stack, size_t bytes, void (*function)(void))
{
	getcontext(p);
	p->uc_stack.ss_sp = stack;
	p->uc_stack.ss_size = bytes;
	p->uc_link = NULL;
	makecontext(p, function, 0);
}
#endif

#endif
