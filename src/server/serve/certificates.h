/* Certificates as a configuration names them. */
#ifndef WEIR_SERVE_CERTIFICATES_H
#define WEIR_SERVE_CERTIFICATES_H

#include "registry/registry.h"

/* A fault for each listener whose certificate, key or CA cannot be used. */
weir_registry_look weir_certificates_look;

#endif
