"""Envoy's rate limit service as Debian's gRPC speaks it: messages by their public numbers, a client."""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Message: field number, name, type; "*" before a type: repeated. They are those of rls.proto,
# ratelimit.proto, base.proto and health.proto, and what these take from google.protobuf.
MESSAGES = {
    "Entry": [(1, "key", "string"), (2, "value", "string")],
    "Override": [(1, "requests_per_unit", "uint32"), (2, "unit", "int32")],
    "UInt64Value": [(1, "value", "uint64")],
    "Descriptor": [(1, "entries", "*Entry"), (2, "limit", "Override"), (3, "hits_addend", "UInt64Value"),
                   (4, "is_negative_hits", "bool")],
    "RateLimitRequest": [(1, "domain", "string"), (2, "descriptors", "*Descriptor"), (3, "hits_addend", "uint32")],
    "RateLimit": [(1, "requests_per_unit", "uint32"), (2, "unit", "int32"), (3, "name", "string")],
    "Duration": [(1, "seconds", "int64"), (2, "nanos", "int32")],
    "Status": [(1, "code", "int32"), (2, "current_limit", "RateLimit"), (3, "limit_remaining", "uint32"),
               (4, "duration_until_reset", "Duration")],
    "HeaderValue": [(1, "key", "string"), (2, "value", "string"), (3, "raw_value", "bytes")],
    "RateLimitResponse": [(1, "overall_code", "int32"), (2, "statuses", "*Status"),
                          (3, "response_headers_to_add", "*HeaderValue"),
                          (4, "request_headers_to_add", "*HeaderValue"), (5, "raw_body", "bytes")],
    "HealthCheckRequest": [(1, "service", "string")],
    "HealthCheckResponse": [(1, "status", "int32")],
}
RLS = "envoy.service.ratelimit.v3.RateLimitService"
HEALTH = "grpc.health.v1.Health"
OK, OVER = 1, 2
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
UNITS = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"]


def classes():
    file = descriptor_pb2.FileDescriptorProto(name="rls.proto", package="rls", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            made = message.field.add(number=number, name=field)
            made.label = kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind in MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, ".rls." + kind
            else:
                made.type = getattr(kinds, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName("rls." + name)) for name in MESSAGES}


CLASSES = classes()
Request, Response = CLASSES["RateLimitRequest"], CLASSES["RateLimitResponse"]


def request_of(asked):
    """A question as POST /json takes it, as a message."""
    made = Request(domain=asked["domain"], hits_addend=asked.get("hitsAddend", 0))
    for one in asked["descriptors"]:
        descriptor = made.descriptors.add()
        for entry in one["entries"]:
            descriptor.entries.add(key=entry["key"], value=entry["value"])
        if "limit" in one:
            descriptor.limit.requests_per_unit = one["limit"]["requestsPerUnit"]
            descriptor.limit.unit = UNITS.index(one["limit"]["unit"])
        if "hitsAddend" in one:
            descriptor.hits_addend.value = one["hitsAddend"]
    return made


def answer_of(told):
    """An answer as POST /json gives it; what is 0 is not told apart from what is not there."""
    codes = {OK: "OK", OVER: "OVER_LIMIT"}
    statuses = []
    for status in told.statuses:
        made = {"code": codes[status.code]}
        if status.HasField("current_limit"):
            limit = status.current_limit
            made["currentLimit"] = {"requestsPerUnit": limit.requests_per_unit, "unit": UNITS[limit.unit]}
            if limit.name:
                made["currentLimit"]["name"] = limit.name
        if status.limit_remaining:
            made["limitRemaining"] = status.limit_remaining
        if status.HasField("duration_until_reset"):
            made["durationUntilReset"] = "%ds" % status.duration_until_reset.seconds
        statuses.append(made)
    return {"overallCode": codes[told.overall_code], "statuses": statuses}


class Rls:
    """A channel of its own connection."""

    def __init__(self, target, *, credentials=None, options=(), metadata=None):
        self.metadata = metadata
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), *options]
        self.channel = grpc.secure_channel(target, credentials, options) if credentials else \
            grpc.insecure_channel(target, options)
        self.should = self.method(RLS + "/ShouldRateLimit", Request, Response)
        health = CLASSES["HealthCheckRequest"], CLASSES["HealthCheckResponse"]
        self.check = self.method(HEALTH + "/Check", *health)
        self.watch = self.channel.unary_stream("/" + HEALTH + "/Watch", health[0].SerializeToString,
                                               health[1].FromString)

    def method(self, path, asks, answers):
        return self.channel.unary_unary("/" + path, asks.SerializeToString, answers.FromString)

    def ask(self, request, timeout=60):
        return self.should(request, timeout=timeout, metadata=self.metadata)

    def health(self, service=""):
        return self.check(CLASSES["HealthCheckRequest"](service=service), timeout=60, metadata=self.metadata).status

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()
