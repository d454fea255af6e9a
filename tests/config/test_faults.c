/* Every kind of fault, with its exact place and what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "registry/registry.h"

/* Lines 1 to 3 of what is otherwise good. */
#define LISTEN "listen: {resp: {}}\n"
#define STORES "stores: {m: {url: \"memory:\"}}\n"
#define LIMITERS "limiters: {a: {rule: quota:1/s}}\n"
#define GOOD LISTEN STORES LIMITERS
#define TWO LISTEN STORES "limiters: {a: {rule: quota:1/s}, b: {rule: quota:1/s}}\n"
#define LOGS "limiters: {a: {rule: sliding-log:1/s}, b: {rule: sliding-log:2/s}}\n"
#define TEN(text) text text text text text text text text text text

/* A text, and the start and a part of the only line that is said of it. */
static const struct {
  const char *text, *place, *says;
} cases[] = {
    /* YAML itself */
    {"", "1:1: ", "empty"},
    {"# nothing\n", "1:1: ", "empty"},
    {"listen: [a\n", "2:1: no YAML: ", "did not find expected"},
    {"a: b: c\n", "1:5: no YAML: ", "not allowed"},
    {GOOD "loops: \x01\n", "4:8: no YAML: ", "control characters are not allowed"},
    {GOOD "\xff\n", "4:1: no YAML: ", "UTF-8"},
    {"# \xc3\xa9\nlisten:\n\tresp: {}\n", "3:1: no YAML: ", "a tab; blanks are accepted before"},
    {GOOD "loops: @x\n", "4:8: no YAML: ", "found character that cannot start any token"},
    {"\xef\xbb\xbf" GOOD "loops: 0\n", "4:8: loops: ", "found \"0\""},
    {"listen: {resp: {}}\r\nstores: {m: {url: \"memory:\"}}\r\nloops: 0\r\n",
     "3:8: loops: ", "found \"0\""},
    {GOOD "---\nloops: 1\n", "4:1: ", "a second document; one is accepted"},
    {"[a]\n", "1:1: ", "found a list, accepted is a mapping"},
    {"a\n", "1:1: ", "found text, accepted is a mapping"},
    {"~\n", "1:1: ", "found nothing, accepted is a mapping"},
    {GOOD "{a: b}: c\n", "4:1: ", "a mapping or list as a key"},
    {GOOD "loops: !!int 1\n", "4:8: ", "tag \"tag:yaml.org,2002:int\"; none is accepted"},
    {GOOD "loops: *x\n", "4:8: ", "alias *x; no anchor &x stands before it"},
    {LISTEN STORES "limiters: &l {a: *l}\n", "3:18: ", "cycles are not accepted"},
    {GOOD "loops: 1\nloops: 2\n",
     "5:1: ", "key \"loops\" stands twice in one mapping, first in line 4"},
    {"a: " TEN("[[[[[[[") "\n", "1:67: ", "nested deeper than 64"},
    /* kinds and values */
    {GOOD "loop: 1\n", "4:1: ",
     "unknown key \"loop\", did you mean \"loops\"? accepted are listen, "
     "stores, shadow, limiters, groups, throttle, envoy, limits, places, log and loops"},
    {GOOD "grpc: {}\n", "4:1: ", "unknown key \"grpc\", accepted are"},
    {GOOD "loops:\n", "4:7: loops: ", "found nothing, accepted is text"},
    {GOOD "loops: []\n", "4:8: loops: ", "found a list, accepted is text"},
    {GOOD "loops: 65\n", "4:8: loops: ", "found \"65\", accepted are whole numbers from 1 to 64"},
    {GOOD "loops: -1\n", "4:8: loops: ", "found \"-1\""},
    {GOOD "loops: 99999999999999999999\n", "4:8: loops: ", "found \"99999999999999999999\""},
    {GOOD "shadow: yes\n", "4:9: shadow: ", "found \"yes\", accepted are true and false"},
    {GOOD "shadow: \"true\\0x\"\n", "4:9: shadow: ", "accepted are true and false"},
    {GOOD "\"loops\\0\": 1\n", "4:1: ", "unknown key \"loops\""},
    {GOOD "limits: {idle: 5}\n", "4:16: limits.idle: ", "a duration from 1s to 1d"},
    {GOOD "limits: {idle: 2d}\n", "4:16: limits.idle: ", "found \"2d\""},
    {GOOD "limits: {output: 5}\n", "4:18: limits.output: ", "B, KiB or MiB, from 4KiB to 1024MiB"},
    {GOOD "limits: {key: 5KiB}\n", "4:15: limits.key: ", "B, KiB or MiB, from 1B to 4KiB"},
    {GOOD "limits: {output: 1025MiB}\n", "4:18: limits.output: ", "found \"1025MiB\""},
    {GOOD "limits: {output: 99999999999999999MiB}\n", "4:18: limits.output: ", "found \"9999"},
    {GOOD "limits: {key: 4097B}\n", "4:15: limits.key: ", "found \"4097B\""},
    {GOOD "limits: {kye: 1B}\n", "4:10: limits: ", "unknown key \"kye\", did you mean \"key\"?"},
    /* listen */
    {STORES LIMITERS, "1:1: ", "listen is missing"},
    {"listen: {admin: {}}\n" STORES LIMITERS, "1:1: ", "neither resp, http nor grpc"},
    {"listen: {spoe: {}}\n" STORES LIMITERS,
     "1:10: listen: ", "accepted are resp, http, grpc and admin"},
    {"listen: {grpc: {denied_status: 403}}\n" STORES LIMITERS,
     "1:17: listen.grpc: ", "unknown key \"denied_status\""},
    {"listen: {grpc: {auth: {a: b}}}\n" STORES LIMITERS,
     "1:23: listen.grpc.auth: ", "accepted are a token and a list of tokens"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, class: client}}\n",
     "3:40: limiters.a.class: ", "found \"client\", accepted are header:NAME and query:NAME"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, tenant: {}}}\n",
     "3:41: limiters.a.tenant: ", "found a mapping, accepted is text"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, class: \"header:X\"}}\n",
     "3:40: limiters.a.class: ", "accepted is a limiter with classes="},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, class_else: low}}\n",
     "3:45: limiters.a.class_else: ", "accepted is a limiter with classes="},
    {LISTEN STORES "limiters: {a: {rule: \"quota:9/s,classes=low:1\", class_else: lo}}\n",
     "3:61: limiters.a.class_else: ", "the rule has no class \"lo\""},
    {LISTEN STORES
     "limiters: {a: {rule: \"quota:9/s,classes=low:1\", tiers: {g: \"quota:9/s,classes=mid:1\"}, "
     "class_else: low}}\n",
     "3:100: limiters.a.class_else: ", "the rule of tier g has no class \"low\""},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, tenant: \"header:X\"}}\n",
     "3:41: limiters.a.tenant: ", "accepted is a limiter with a shared-window"},
    {LISTEN STORES "limiters: {a: {rule: \"shared-window:60000/1m,weights=n:1\"}}\n",
     "3:22: limiters.a.rule: ",
     "a shared-window is asked with tenants, which no request can name: accepted with tenant: of "
     "the limiter, or says: [tenant] of a listener"},
    {"listen: {http: {key: \"query:tenant\"}}\n" STORES LIMITERS, "1:22: listen.http.key: ",
     "query:tenant is what a request says of itself; accepted is another name"},
    {"listen: {resp: {says: class}}\n" STORES LIMITERS,
     "1:23: listen.resp.says: ", "accepted is a list"},
    {"listen: {http: {says: [class, tennant]}}\n" STORES LIMITERS, "1:31: listen.http.says: ",
     "a request cannot say \"tennant\", did you mean \"tenant\"? accepted are class, limit and "
     "tenant"},
    {"listen: {resp: {}, admin: {says: [limit]}}\n" STORES LIMITERS,
     "1:28: listen.admin: ", "unknown key \"says\""},
    {GOOD "limits: {grpc_streams: 0}\n", "4:24: limits.grpc_streams: ", "from 1 to 100000"},
    {GOOD "limits: {grpc_age: 0.5s}\n", "4:20: limits.grpc_age: ", "from 1s to 400d"},
    {"listen: {resp: 1}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "found text, accepted is a mapping"},
    {"listen: {resp: {address: 6380}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found \"6380\", accepted are ADDRESS:PORT"},
    {"listen: {resp: {address: \"[::1:1\"}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found"},
    {"listen: {resp: {address: \"::1:1\"}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found"},
    {"listen: {resp: {address: 127.0.0.1:0}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found"},
    {"listen: {resp: {address: 127.0.0.1:65536}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found"},
    {"listen: {resp: {address: example.com:1}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "found"},
    {"listen: {resp: {address: unix:sock}}\n" STORES LIMITERS,
     "1:26: listen.resp.address: ", "absolute path of at most 107 bytes"},
    {"listen: {resp: {address: 0.0.0.0:1, insecure: true, sets_limits: true}}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "sets_limits: 0.0.0.0:1 may be open to other hosts: give it auth, or"},
    {"listen: {resp: {address: unix:/s, reuse_port: true}}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "reuse_port is of TCP addresses alone"},
    {"listen: {resp: {address: 0.0.0.0:1}}\n" STORES LIMITERS, "1:16: listen.resp: ",
     "0.0.0.0:1 is open to other hosts: give it auth or tls, or say insecure: true"},
    {"listen: {resp: {address: \"[::]:1\"}}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "is open to other hosts"},
    {"listen: {resp: {address: \"[::ffff:127.0.0.1]:1\"}}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "is open to other hosts"},
    {"listen: {http: {address: 192.0.2.1:1}}\n" STORES LIMITERS,
     "1:16: listen.http: ", "is open to other hosts"},
    {"listen: {http: {address: \"[2001:db8::1]:1\"}}\n" STORES LIMITERS,
     "1:16: listen.http: ", "is open to other hosts"},
    {"listen: {resp: {}, admin: {address: 0.0.0.0:1}}\n" STORES LIMITERS,
     "1:27: listen.admin: ", "is open to other hosts"},
    {"listen: {resp: {}, admin: {address: \"[::]:1\"}}\n" STORES LIMITERS,
     "1:27: listen.admin: ", "is open to other hosts"},
    {"listen:\n  resp: {}\n  http: {address: 127.0.0.1:6380}\n" STORES LIMITERS,
     "3:9: listen.http: ", "is that of the listener in line 2"},
    {"listen:\n  resp: {}\n  http: {address: localhost:6380}\n" STORES LIMITERS,
     "3:9: listen.http: ", "is that of the listener in line 2"},
    {"listen:\n  resp: {address: \"[::1]:7\"}\n  admin: {address: \"[0::1]:7\"}\n" STORES LIMITERS,
     "3:10: listen.admin: ", "is that of the listener in line 2"},
    {"listen:\n  resp: {address: \"systemd:a\"}\n  http: {address: \"systemd:a\"}\n" STORES
         LIMITERS,
     "3:9: listen.http: ", "is that of the listener in line 2"},
    {"listen: {resp: {mode: 0600}}\n" STORES LIMITERS,
     "1:16: listen.resp: ", "of unix sockets alone"},
    {"listen: {resp: {address: unix:/s, mode: 0888}}\n" STORES LIMITERS,
     "1:41: listen.resp.mode: ", "octal"},
    {"listen: {resp: {address: unix:/s, mode: 7777}}\n" STORES LIMITERS,
     "1:41: listen.resp.mode: ", "octal"},
    {"listen: {resp: {denied_status: 403}}\n" STORES LIMITERS,
     "1:17: listen.resp: ", "unknown key \"denied_status\""},
    {"listen: {http: {denied_status: 200}}\n" STORES LIMITERS,
     "1:32: listen.http.denied_status: ", "from 400 to 599"},
    {"listen: {http: {key: name}}\n" STORES LIMITERS,
     "1:22: listen.http.key: ", "accepted are header:NAME, query:NAME"},
    {"listen: {http: {key: \"header:a b\"}}\n" STORES LIMITERS,
     "1:22: listen.http.key: ", "header:a b"},
    {"listen: {http: {trusted: [10.0.0.0/8, 10.0.0.0/99]}}\n" STORES LIMITERS,
     "1:26: listen.http.trusted: ", "10.0.0.0/99"},
    {"listen: {http: {trusted: 10.0.0.0/8}}\n" STORES LIMITERS,
     "1:26: listen.http.trusted: ", "accepted is a list"},
    {"listen: {resp: {auth: [a]}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "accepted are a password and a mapping of users"},
    {"listen: {http: {auth: {a: b}}}\n" STORES LIMITERS,
     "1:23: listen.http.auth: ", "accepted are a token and a list of tokens"},
    {"listen: {http: {auth: []}}\n" STORES LIMITERS,
     "1:23: listen.http.auth: ", "accepted are 1 to 1000"},
    {"listen: {resp: {auth: \"\"}}\n" STORES LIMITERS, "1:23: listen.resp.auth: ", "empty text"},
    {"listen: {resp: {auth: \"a\\0b\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "a NUL byte"},
    {"listen: {resp: {auth: \"${WEIR_TEST_UNSET}\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "environment variable \"WEIR_TEST_UNSET\" is not set"},
    {"listen: {resp: {auth: \"${WEIR_TEST_EMPTY}\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "empty with all that is put in"},
    {"listen: {resp: {auth: \"${file:/nowhere/x}\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "file \"/nowhere/x\" cannot be read: No such file"},
    {"listen: {resp: {auth: \"${file:/dev/null}\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "is empty"},
    {"listen: {resp: {auth: \"${X\"}}\n" STORES LIMITERS,
     "1:23: listen.resp.auth: ", "accepted are ${NAME} and ${file:PATH}"},
    {"listen: {resp: {tls: {key: /dev/null}}}\n" STORES LIMITERS,
     "1:22: listen.resp.tls: ", "certificate and key are both needed"},
    {"listen: {resp: {tls: {key: /dev/null, certificate: /nowhere/c}}}\n" STORES LIMITERS,
     "1:52: listen.resp.tls.certificate: ", "file \"/nowhere/c\" cannot be read"},
    /* stores */
    {LISTEN LIMITERS, "1:1: ", "stores is missing"},
    {LISTEN "stores: {}\n" LIMITERS, "2:9: stores: ", "found 0 stores, accepted are 1 to 256"},
    {LISTEN "stores: {m: {}}\n" LIMITERS, "2:10: stores.m: ", "url is missing"},
    {LISTEN "stores: {m: {url: \"redis:\"}}\n" LIMITERS, "2:19: stores.m.url: ", "store URL: "},
    {LISTEN "stores: {m: {url: \"redis://u:hunter2@127.0.0.1:x\"}}\n" LIMITERS,
     "2:19: stores.m.url: ", "port"},
    {LISTEN "stores: {m: {url: \"memory:\", fallback: lcal}}\n" LIMITERS,
     "2:40: stores.m.fallback: ",
     "found \"lcal\", did you mean \"local\"? accepted are local, deny, allow and none"},
    {LISTEN "stores: {m: {url: \"memory:\", fallback: \"deny\\0\"}}\n" LIMITERS,
     "2:40: stores.m.fallback: ", "accepted are local, deny, allow and none"},
    {LISTEN "stores: {m: {url: \"memory:\", processes: 0}}\n" LIMITERS,
     "2:41: stores.m.processes: ", "from 1 to 100000"},
    {LISTEN "stores: {m: {url: \"memory:\", deadline: 61s}}\n" LIMITERS,
     "2:40: stores.m.deadline: ", "a duration from 1ms to 1m"},
    {LISTEN "stores: {\"m:\": {url: \"memory:\"}, m: {url: \"memory:\"}}\n" LIMITERS,
     "2:10: stores: ", "name \"m:\": accepted are 1 to 64"},
    /* limiters */
    {LISTEN STORES, "1:1: ", "no limiters, and throttle is not enabled"},
    {LISTEN STORES "limiters: {a: {}}\n", "3:12: limiters.a: ", "rule is missing"},
    {LISTEN STORES "limiters: {a: {rule: quota:0/s}}\n", "3:22: limiters.a.rule: ", "limit \"0\""},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, store: n}}\n",
     "3:40: limiters.a.store: ", "no store \"n\", did you mean \"m\"? accepted are m"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, store: \"m\\0\"}}\n",
     "3:40: limiters.a.store: ", "no store \"m\""},
    {LISTEN "stores: {m: {url: \"memory:\"}, n: {url: \"memory:\"}}\n" LIMITERS,
     "3:12: limiters.a: ", "store is missing, as there are 2 of them"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, cost: 2147483649}}\n",
     "3:39: limiters.a.cost: ", "from 1 to 2147483648"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, most: 0}}\n",
     "3:39: limiters.a.most: ", "from 1 to 9007199254740992"},
    {LISTEN STORES "limiters: {a: {rule: quota:9/s, most: 5}}\n",
     "3:22: limiters.a.rule: ", "most=5 is below the limit: accepted are 9, the limit, to"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, most: 5, tiers: {gold: quota:9/s}}}\n",
     "3:56: limiters.a.tiers.gold: ", "most=5 is below the limit: accepted are 9, the limit, to"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, tiers: {gold: quota:1}}}\n",
     "3:47: limiters.a.tiers.gold: ", "LIMIT/PERIOD"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, tiers: {\"g d\": unlimited}}}\n",
     "3:41: limiters.a.tiers.g d: ", "name \"g d\""},
    {LISTEN STORES
     "limiters: {a: {rule: quota:1/s, tiers: {gold: blocked}, overrides: {k: god}}}\n",
     "3:72: limiters.a.overrides: ", "no tier \"god\", did you mean \"gold\"? accepted are gold"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, overrides: {\"\": x}}}\n",
     "3:45: limiters.a.overrides: ", "a key of 0 bytes, accepted are 1 to 4096"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, allow: k}}\n",
     "3:40: limiters.a.allow: ", "found text, accepted is a list"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, headers: on}}\n",
     "3:42: limiters.a.headers: ", "accepted are draft-10, draft-03 and off"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 10}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: ten%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 101%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 100.01%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: .5%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 0.125%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: -1%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 1.%}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 10 %}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: \"10%\\0\"}}\n",
     "3:42: limiters.a.enforce: ", "accepted is a part of the keys from 0% to 100%"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, enforce: 10%, shadow: true}}\n",
     "3:42: limiters.a.enforce: ", "shadow is true, which is enforce: 0%: accepted is one of them"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, log_keys: all}}\n",
     "3:43: limiters.a.log_keys: ", "accepted are off, hashed and plain"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, overrides_file: /nowhere/o}}\n",
     "3:49: limiters.a.overrides_file: ", "file \"/nowhere/o\" cannot be read: No such file"},
    {LISTEN STORES "limiters: {a: {rule: quota:1/s, overrides_file: /}}\n",
     "3:49: limiters.a.overrides_file: ", "is no regular file"},
    /* throttle */
    /* groups */
    {TWO "groups: [a]\n", "4:9: groups: ", "found a list, accepted is a mapping"},
    {TWO "groups: {g: a}\n", "4:13: groups.g: ", "found text, accepted is a list"},
    {TWO "groups: {g: [a]}\n", "4:13: groups.g: ", "a group of 1, accepted are 2 to 8 limiters"},
    {TWO "groups: {g: [a, b, a, b, a, b, a, b, a]}\n", "4:13: groups.g: ", "a group of 9"},
    {TWO "groups: {g: [a, c]}\n",
     "4:17: groups.g: ", "no limiter \"c\", did you mean \"a\"? accepted are a and b"},
    {TWO "groups: {g: [a, \"b\\0\"]}\n", "4:17: groups.g: ", "no limiter \"b\""},
    {TWO "groups: {g: [a, [b]]}\n", "4:17: groups.g: ", "found a list, accepted is text"},
    {TWO "groups: {g: [a, a]}\n",
     "4:17: groups.g: ", "limiter \"a\" stands there twice, accepted is each once"},
    {TWO "groups: {b: [a, b]}\n",
     "4:10: groups.b: ", "a limiter has this name, accepted is one that none has"},
    {TWO "groups: {g h: [a, b]}\n", "4:10: groups: ", "name \"g h\""},
    {LISTEN STORES LOGS "groups: {g: [a, b]}\n", "4:17: groups.g: ",
     "limiter \"b\": sliding-log:2/1s beside sliding-log:1/1s: neither gives back what it was "
     "charged, and accepted is one such rule"},
    {LISTEN STORES "limiters: {a: {rule: sliding-log:1/s}, b: {rule: quota:1/s, tiers: "
                   "{x: sliding-log:2/s}}}\ngroups: {g: [a, b]}\n",
     "4:17: groups.g: ", "limiter \"b\": sliding-log:2/1s beside sliding-log:1/1s"},
    {LISTEN STORES "limiters: {a: {rule: in-flight:1/1m}, b: {rule: quota:1/s}}\n"
                   "groups: {g: [a, b]}\n",
     "4:14: groups.g: ", "limiter \"a\": in-flight:1/1m: a reservation holds what is in flight"},
    {LISTEN "stores: {m: {url: \"redis://127.0.0.1:1\"}}\n"
            "limiters: {a: {rule: quota:1/s}, b: {rule: leaky-bucket:1/s}}\n"
            "groups: {g: [a, b]}\n",
     "4:17: groups.g: ", "a place in a queue cannot be given back in a store without"},
    {GOOD "throttle: {limiters: 0}\n", "4:22: throttle.limiters: ", "from 1 to 65536"},
    {GOOD "throttle: {enabled: true, store: x}\n", "4:34: throttle.store: ", "no store \"x\""},
};

static weir_config_faults faults;

static void read_text(const char *text, size_t length) {
  faults = (weir_config_faults){0};
  weir_config *config = weir_config_read_text("f.yaml", text, length, &faults);
  assert_non_null(config);
  weir_registry *registry = weir_registry_create(config, NULL, &faults);
  assert_int_equal(registry == NULL, faults.count > 0);
  weir_registry_release(registry);
}

static void test_each_fault_has_its_place(void **state) {
  size_t wrong = 0;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char start[128];
    read_text(cases[i].text, strlen(cases[i].text));
    snprintf(start, sizeof start, "f.yaml:%s", cases[i].place);
    const char *line = faults.lines[0].text.text;
    assert_null(strstr(line, "hunter2"));
    if (faults.count == 1 && strncmp(line, start, strlen(start)) == 0 &&
        strstr(line, cases[i].says) != NULL)
      continue;
    wrong++;
    print_error("%s: %zu faults, expected \"%s...%s\", the first is \"%s\"\n", cases[i].text,
                faults.count, start, cases[i].says, line);
  }
  assert_int_equal(wrong, 0);
}

static void test_a_file_that_cannot_be_read_has_no_line(void **state) {
  (void)state;
  faults = (weir_config_faults){0};
  assert_null(weir_config_read("/nowhere/f.yaml", &faults));
  assert_int_equal(faults.count, 1);
  assert_string_equal(faults.lines[0].text.text,
                      "/nowhere/f.yaml: cannot be read: No such file or directory");
  faults = (weir_config_faults){0};
  assert_null(weir_config_read("/", &faults));
  assert_string_equal(faults.lines[0].text.text, "/: cannot be read: Is a directory");
}

static void test_all_faults_are_told_in_their_order(void **state) {
  (void)state;
  static const char text[] =
      "loops: 0\n"
      "limiters: {a: {rule: x}, b: {cost: 0, rule: quota:1/s}}\n"
      "stores: {m: {url: \"memory:\", x: 1}}\n"
      "listen: {resp: {address: x}}\n";
  static const char *const starts[] = {
      "f.yaml:1:8: ", "f.yaml:2:22: ", "f.yaml:2:36: ", "f.yaml:3:30: ", "f.yaml:4:26: "};
  read_text(text, sizeof text - 1);
  assert_int_equal(faults.count, 5);
  for (size_t i = 0; i < 5; i++)
    assert_memory_equal(faults.lines[i].text.text, starts[i], strlen(starts[i]));
}

static void test_a_name_of_which_there_are_none(void **state) {
  (void)state;
  static const char text[] = LISTEN STORES "groups: {g: [a, b]}\n";
  read_text(text, sizeof text - 1);
  assert_int_equal(faults.count, 2);
  assert_string_equal(faults.lines[0].text.text,
                      "f.yaml:3:14: groups.g: no limiter \"a\": there are none");
}

static void test_more_than_a_hundred_are_counted(void **state) {
  (void)state;
  static char text[8192];
  strcpy(text, GOOD);
  for (int i = 0; i < 150; i++)
    sprintf(text + strlen(text), "unknown-%03d: 1\n", i);
  read_text(text, strlen(text));
  assert_int_equal(faults.count, 150);
  assert_int_equal(faults.kept, WEIR_CONFIG_FAULTS_MOST);
}

static void test_secrets_are_not_shown(void **state) {
  (void)state;
  setenv("WEIR_TEST_SECRET", "hunter2:@/?", 1);
  static const char *const texts[] = {
      LISTEN "stores: {m: {url: \"redis://u:${WEIR_TEST_SECRET}@127.0.0.1:x\"}}\n" LIMITERS,
      LISTEN "stores: {m: {url: \"redis://u:hunter2@127.0.0.1/?x=1\"}}\n" LIMITERS,
      LISTEN "stores: {m: {url: \"${WEIR_TEST_SECRET}\"}}\n" LIMITERS,
      LISTEN STORES "limiters: {a: {rule: \"redis://u:hunter2@h\"}}\n",
      LISTEN STORES "limiters: {a: {rule: quota:1/s, store: \"redis://u:hunter2@h\"}}\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    read_text(texts[i], strlen(texts[i]));
    assert_true(faults.count > 0);
    for (size_t j = 0; j < faults.kept; j++)
      if (strstr(faults.lines[j].text.text, "hunter2") != NULL)
        fail_msg("%s", faults.lines[j].text.text);
  }
}

/* Nine levels of ten aliases would be a thousand million nodes. */
static void test_aliases_do_not_explode(void **state) {
  (void)state;
  char text[4096] = "a0: &a0 [x]\n";
  for (int level = 1; level <= 9; level++) {
    sprintf(text + strlen(text), "a%d: &a%d [", level, level);
    for (int i = 0; i < 10; i++)
      sprintf(text + strlen(text), "*a%d%s", level - 1, i < 9 ? ", " : "]\n");
  }
  read_text(text, strlen(text));
  assert_int_equal(faults.count, 1);
  assert_non_null(strstr(faults.lines[0].text.text, "more than 1000000 nodes"));
}

static void test_nodes_and_anchors_are_counted(void **state) {
  (void)state;
  enum { NODES = 1000001 };
  char *text = malloc(2 * NODES + 2);
  assert_non_null(text);
  text[0] = '[';
  for (size_t i = 0; i < NODES; i++)
    memcpy(text + 1 + 2 * i, "a,", 2);
  read_text(text, 1 + 2 * (size_t)NODES);
  assert_int_equal(faults.count, 1);
  assert_non_null(strstr(faults.lines[0].text.text, "more than 1000000 nodes"));
  size_t length = 0;
  for (int i = 0; i <= 256; i++)
    length += (size_t)sprintf(text + length, "- &a%d x\n", i);
  read_text(text, length);
  assert_int_equal(faults.count, 1);
  assert_string_equal(faults.lines[0].text.text, "f.yaml:257:3: more than 256 anchors");
  free(text);
}

int main(void) {
  unsetenv("WEIR_TEST_UNSET");
  setenv("WEIR_TEST_EMPTY", "", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_fault_has_its_place),
      cmocka_unit_test(test_a_file_that_cannot_be_read_has_no_line),
      cmocka_unit_test(test_all_faults_are_told_in_their_order),
      cmocka_unit_test(test_a_name_of_which_there_are_none),
      cmocka_unit_test(test_more_than_a_hundred_are_counted),
      cmocka_unit_test(test_secrets_are_not_shown),
      cmocka_unit_test(test_aliases_do_not_explode),
      cmocka_unit_test(test_nodes_and_anchors_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
