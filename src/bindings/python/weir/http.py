"""A decision as response fields, a client's address as a key."""
from __future__ import annotations

import ctypes
from typing import Dict, Optional

from . import native
from .store import Owned
from .values import Decision, check, messages, one_of, text_bytes, whole

STYLES = ("draft-10", "x-ratelimit")


def fields(handle, name: str, decision: Decision, style: str) -> Dict[str, str]:
    if not isinstance(decision, Decision):
        raise TypeError(f"a decision is a weir.Decision, not {type(decision).__name__}")
    rows = (native.weir_http_field * native.WEIR_HTTP_FIELDS_MOST)()
    count = ctypes.c_size_t()
    check(native.weir_http_write_fields(handle, text_bytes("a policy's name", name), ctypes.byref(decision._raw),
                                        one_of("style", style, STYLES), rows, ctypes.byref(count), messages.at))
    return {each.name.decode(): each.value.decode() for each in rows[:count.value]}


class NetworksHandle(Owned):
    free = native.weir_http_networks_destroy


class Networks:
    """Networks, "10.0.0.0/8, fd00::/8": proxies whose word is taken, or who is not limited. An address
    is `in` them."""

    def __init__(self, text: str):
        self._handle = NetworksHandle()
        check(native.weir_http_networks_create(text_bytes("networks", text), ctypes.byref(self._handle), messages.at))

    def __contains__(self, address: str) -> bool:
        return native.weir_http_networks_contain(self._handle, text_bytes("an address", address))


def client_key(peer: str, forwarded_for: Optional[str] = None, trusted: Optional[Networks] = None,
               ipv4_bits: int = 32, ipv6_bits: int = 64) -> str:
    """Under which key a client is limited: its address, cut to a network. X-Forwarded-For is believed
    where `peer` is one of the trusted proxies, up to the first that is not."""
    if not (trusted is None or isinstance(trusted, Networks)):
        raise TypeError(f"trusted is weir.Networks, not {type(trusted).__name__}")
    for bits, most in ((whole("ipv4_bits", ipv4_bits), 32), (whole("ipv6_bits", ipv6_bits), 128)):
        if not 1 <= bits <= most:
            raise ValueError(f"ipv4_bits are 1 to 32, ipv6_bits 1 to 128, not {bits}")
    key = ctypes.create_string_buffer(native.WEIR_HTTP_CLIENT_KEY_BYTES)
    check(native.weir_http_client_key(
        trusted and trusted._handle, text_bytes("an address", peer),
        None if forwarded_for is None else text_bytes("X-Forwarded-For", forwarded_for), ipv4_bits, ipv6_bits,
        ctypes.cast(key, ctypes.POINTER(ctypes.c_char)), messages.at))
    return key.value.decode()
