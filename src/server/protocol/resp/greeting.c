/* What clients say when they connect: who they are, and what they would like to speak. */
#include "protocol/resp/internal.h"

static weir_resp_outcome ok(const weir_resp_call *call) {
  weir_bytes_text(call->out, "+OK\r\n");
  return WEIR_RESP_ANSWERED;
}

/* Looks at every credential, whichever fits. */
static bool is_known(const weir_resp_server *server, const weir_resp_argument *user,
                     const weir_resp_argument *secret) {
  bool found = false;
  for (size_t i = 0; i < server->credential_count; i++) {
    const weir_config_credential *one = &server->credentials[i];
    bool named = weir_secret_equals(one->user, strlen(one->user), user->bytes, user->length);
    bool fits = weir_secret_equals(one->secret, one->secret_length, secret->bytes, secret->length);
    found |= named & fits;
  }
  return found;
}

/* Says nothing where the credential is good. */
static bool log_in(const weir_resp_call *call, const weir_resp_argument *user,
                   const weir_resp_argument *secret) {
  if (is_known(call->server, user, secret)) {
    call->session->known = true;
    return true;
  }
  weir_bytes_text(call->out, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  return false;
}

weir_resp_outcome weir_resp_run_auth(const weir_resp_call *call) {
  static const weir_resp_argument everybody = {"default", 7};
  if (call->server->credential_count == 0)
    return weir_resp_refuse(call, "AUTH is not needed: this server asks for no password");
  const weir_resp_argument *user = call->count == 3 ? &call->arguments[1] : &everybody;
  if (!log_in(call, user, &call->arguments[call->count - 1])) return WEIR_RESP_STRANGER;
  return ok(call);
}

static bool set_name(const weir_resp_call *call, const weir_resp_argument *name) {
  if (name->length > WEIR_RESP_NAME_MOST) {
    weir_resp_error(call->out, "the name is too long: 64 bytes are accepted");
    return false;
  }
  for (size_t i = 0; i < name->length; i++)
    if (name->bytes[i] < 0x21 || name->bytes[i] > 0x7e) {
      weir_resp_error(call->out,
                      "Client names cannot contain spaces, newlines or special characters.");
      return false;
    }
  memcpy(call->session->name, name->bytes, name->length);
  call->session->name[name->length] = '\0';
  return true;
}

static void describe(const weir_resp_call *call) {
  static const char version[] = WEIR_VERSION_TEXT;
  weir_bytes_text(call->out, "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n");
  weir_resp_bulk(call->out, version, sizeof version - 1);
  weir_bytes_text(call->out, "$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:");
  weir_bytes_number(call->out, (int64_t)call->session->id);
  weir_bytes_text(call->out,
                  "\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                  "$7\r\nmodules\r\n*0\r\n");
}

/* HELLO [2 [AUTH user password] [SETNAME name]] */
weir_resp_outcome weir_resp_run_hello(const weir_resp_call *call) {
  const weir_resp_argument *arguments = call->arguments;
  if (call->count > 1 && !weir_resp_is(&arguments[1], "2")) {
    weir_bytes_text(call->out, "-NOPROTO unsupported protocol version: 2 is accepted\r\n");
    return WEIR_RESP_ANSWERED;
  }
  for (size_t i = 2; i < call->count;) {
    if (weir_resp_is(&arguments[i], "AUTH") && i + 2 < call->count) {
      if (!log_in(call, &arguments[i + 1], &arguments[i + 2])) return WEIR_RESP_STRANGER;
      i += 3;
    } else if (weir_resp_is(&arguments[i], "SETNAME") && i + 1 < call->count) {
      if (!set_name(call, &arguments[i + 1])) return WEIR_RESP_ANSWERED;
      i += 2;
    } else {
      return weir_resp_refuse(call, "HELLO: AUTH USER PASSWORD and SETNAME NAME are accepted");
    }
  }
  if (!call->session->known) {
    weir_bytes_text(call->out,
                    "-NOAUTH HELLO must be called with AUTH USER PASSWORD, or after "
                    "AUTH\r\n");
    return WEIR_RESP_ANSWERED;
  }
  describe(call);
  return WEIR_RESP_ANSWERED;
}

weir_resp_outcome weir_resp_run_client(const weir_resp_call *call) {
  const weir_resp_argument *what = &call->arguments[1];
  if (weir_resp_is(what, "SETNAME") && call->count == 3)
    return set_name(call, &call->arguments[2]) ? ok(call) : WEIR_RESP_ANSWERED;
  if (weir_resp_is(what, "SETINFO") && call->count == 4) return ok(call);
  if (weir_resp_is(what, "GETNAME") && call->count == 2) {
    weir_resp_bulk(call->out, call->session->name, strlen(call->session->name));
    return WEIR_RESP_ANSWERED;
  }
  if (!weir_resp_is(what, "ID") || call->count != 2)
    return weir_resp_refuse(
        call, "CLIENT: SETNAME NAME, GETNAME, SETINFO NAME VALUE and ID are accepted");
  weir_bytes_format(call->out, ":%llu\r\n", (unsigned long long)call->session->id);
  return WEIR_RESP_ANSWERED;
}

weir_resp_outcome weir_resp_run_select(const weir_resp_call *call) {
  if (weir_resp_is(&call->arguments[1], "0")) return ok(call);
  return weir_resp_refuse(call, "DB index is out of range: 0 is accepted");
}
