#include "serve/connection.h"
const weir_speech weir_speech_http, weir_speech_admin;
