/* Findings of doctor for programs: one object a line, in the order in which they were told. */
#include "doctor.h"
#include "json.h"

enum { DIGITS = 0 }; /* every number is whole */

static json_t *make_object(const weir_finding *finding) {
  json_t *server = finding->server != NULL ? json_string(finding->server) : json_null();
  return json_pack("{s:o, s:s, s:s, s:s}", "server", server, "level",
                   weir_cli_level_name(finding->level), "topic", finding->topic, "text",
                   finding->text);
}

bool weir_cli_doctor_json(FILE *out, const weir_cli_findings *findings) {
  for (size_t i = 0; i < findings->count; i++) {
    json_t *object = make_object(&findings->list[i]);
    bool printed = weir_cli_json_print(out, object, DIGITS);
    json_decref(object);
    if (!printed) return false;
  }
  return true;
}
