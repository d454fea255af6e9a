/* Which process this is. A socket, a lock and the thread that holds it do not survive fork() in a
 * usable way: what was opened before belongs to the parent alone. */
#ifndef WEIR_STORE_PROCESS_H
#define WEIR_STORE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/status.h>

/* From here on fork() is noticed. False: no memory. */
bool weir_process_watch(void);

/* This process's number, which is another in a child. Opened things remember it, and each use
 * compares. Only process.c changes it. */
extern atomic_uint weir_process_number;

/* WEIR_OK for what was opened in this process; else WEIR_BAD_ARGUMENT, with a message about `what`
 * ("the store"). Touches nothing but memory. */
weir_status weir_process_check(unsigned opened_in, const char *what, weir_message *message);

#endif
