/* A product of two 64-bit numbers before it is divided, where it may not fit into one. */
#ifndef WEIR_COMMON_WIDE_H
#define WEIR_COMMON_WIDE_H

__extension__ typedef __int128 weir_wide;

#endif
