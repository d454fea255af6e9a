/* A resolver that takes its time, in place of the system's: the linker puts it there. Names that
 * begin with "slow" are 127.0.0.1, after 300 ms; or never, while it hangs. */
#ifndef TESTS_FAULTS_RESOLVER_H
#define TESTS_FAULTS_RESOLVER_H

#include <stdbool.h>

/* For this process and all that it starts from now on. */
void resolver_begin(void);

/* It hangs until whoever made it hang has taken that back. */
void resolver_hang(bool hangs);

/* How often it was asked for such a name. */
unsigned resolver_asked(void);

#endif
