/* Which version runs, which may not be the one whose headers were compiled. */
#include <weir/version.h>

const char *weir_version(void) {
  return WEIR_VERSION_TEXT;
}
