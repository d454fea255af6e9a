# cmake -DFROM=FILE -DTO=FILE.c -P embed.cmake: a page as an array of C.
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
file(WRITE "${TO}" "#include <stddef.h>
extern const char weir_status_page[];
extern const size_t weir_status_page_length;
const char weir_status_page[] = {
${bytes}0};
const size_t weir_status_page_length = sizeof weir_status_page - 1;
")
