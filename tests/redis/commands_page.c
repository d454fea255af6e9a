/* commands_page >docs/redis-commands.md */
#include "redis/page.h"

int main(void) {
  page_print(stdout);
  return ferror(stdout) != 0;
}
