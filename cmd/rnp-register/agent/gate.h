/* gate.h - the program in which a container waits (gate.c), as bytes of the agent. Uses nothing. */
#ifndef RNP_CMD_REGISTER_AGENT_GATE_H
#define RNP_CMD_REGISTER_AGENT_GATE_H

#include <stddef.h>

/* made by make */
extern const unsigned char gate_program[];
extern const size_t gate_bytes;

#endif
