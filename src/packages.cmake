# Debian packages, one for each component of the installation: `cmake --workflow --preset package`.
# docs/packaging.md says what is in them and why. A further program adds its component to the list, and
# the variables that describe it.
set(weir_components library development tools python)
if(WEIR_BUILD_SERVE)
  list(APPEND weir_components server)
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_CONTACT "weir maintainers <maintainers@weir.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${weir_components})
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# Until a release, a program works with the very version it was built with, as its package will say.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libweir${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "rate limits on memcached or Redis, without scripts
One API and the same decisions on every store, with single-key commands
and a stated bound on how wrong a decision can be.")

# What static linking needs, and pkg-config asks for.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libweir-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
string(JOIN ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION})"
  libsodium-dev libmemcached-dev libhiredis-dev libssl-dev)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "development files of libweir
Headers, static libraries, manual pages, and what pkg-config and CMake
need to find them.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME weir-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS gnuplot-nox)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "command line of the rate limiter weir
Takes from limits in scripts, inspects stores, replays traces, simulates
rules and compares stores.")

# What makes a server of the program: the units of systemd, and pages. The program itself is in the tools.
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME weir-serve)
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SERVER_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS "weir-tools (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SERVER_DESCRIPTION "rate limits for every language and proxy
Units of systemd that run weir serve, which answers RESP, HTTP and gRPC,
and recipes for nginx, Caddy, HAProxy, Envoy and clients of Redis.")

# Pure Python, which loads the library that it is of. Folders of Python are no part of other prefixes.
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-weir)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
  "python3 (>= 3.9), ${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/src/bindings/python/debian/prerm)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "rate limits on memcached or Redis, for Python
Limiters for threads and asyncio.")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install(DIRECTORY src/bindings/python/weir DESTINATION lib/python3/dist-packages COMPONENT python
    PATTERN __pycache__ EXCLUDE)
endif()

foreach(component IN LISTS weir_components)
  string(TOUPPER ${component} upper)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
include(CPack)
