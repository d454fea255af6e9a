"""Declares the library to ctypes by reading weir_ffi.h, so that nothing is written down twice.

What the header declares is found here by its name: native.weir_limiter_take, native.WEIR_OK,
native.weir_decision. Calls release Python's lock, so threads wait for the store side by side.
"""
import ctypes
import ctypes.util
import os
import pathlib
import re

NUMBERS = {"_Bool": ctypes.c_bool, "char": ctypes.c_char, "int": ctypes.c_int, "unsigned": ctypes.c_uint,
           "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
           "uint32_t": ctypes.c_uint32}


def find_header():
    """$WEIR_FFI_HEADER, else as it stands beside this package."""
    beside = pathlib.Path(__file__).resolve().parents[2] / "ffi" / "weir_ffi.h"
    return pathlib.Path(os.environ.get("WEIR_FFI_HEADER", beside))


def load_library():
    name = os.environ.get("WEIR_LIBRARY") or ctypes.util.find_library("weir")
    if name is None:
        raise ImportError("libweir is not installed; WEIR_LIBRARY=/path/to/libweir.so names another")
    return ctypes.CDLL(name)


def ctype(text, types):
    """'const weir_decision *' as ctypes has it. Pointers to what is opaque are pointers to void."""
    stars = text.count("*")
    base = re.sub(r"\bconst\b|\*", "", text).strip()
    if stars == 0:
        return None if base == "void" else types[base]
    if (base, stars) == ("char", 1):
        return ctypes.c_char_p if "const" in text else ctypes.c_void_p
    inner = types.get(base)
    if inner is None or (isinstance(inner, type) and issubclass(inner, ctypes._CFuncPtr)):
        made, stars = inner or ctypes.c_void_p, stars - 1
    else:
        made = inner
    for _ in range(stars):
        made = ctypes.POINTER(made)
    return made


def parameter(text, types):
    """A parameter or a member: its name and type. Of a parameter, an array is a pointer."""
    function = re.fullmatch(r"(.*)\(\*(\w+)\)\((.*)\)", text)
    if function:
        return function.group(2), function_type(function.group(1), function.group(3), types)
    kind, name, size = re.fullmatch(r"(.*?)(\w+)(?:\[(\d+)\])?", text).groups()
    return name, ctype(kind, types) * int(size) if size else ctype(kind, types)


def arguments(text, types):
    if text == "void":
        return []
    kinds = [parameter(each.strip(), types)[1] for each in text.split(",")]
    return [ctypes.POINTER(kind._type_) if hasattr(kind, "_length_") else kind for kind in kinds]


def function_type(result, parameters, types):
    return ctypes.CFUNCTYPE(ctype(result, types), *arguments(parameters, types))


def declare(text, library):
    """All that the header declares, by name."""
    types, found = dict(NUMBERS), {}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for each in re.findall(r"[^;{]*(?:\{[^}]*\})?[^;{]*;", text):
        each = " ".join(each[:-1].split())
        body = re.fullmatch(r"(?:typedef )?(enum|struct)( \w+)? \{(.*)\} ?(\w*)", each)
        function = re.fullmatch(r"(typedef )?(.*?[ *])(\w+)\((.*)\)", each)
        if body and body.group(1) == "enum":
            found.update((name, int(value)) for name, value in re.findall(r"(\w+) = (-?\d+)", body.group(3)))
            types[body.group(4)] = ctypes.c_int
        elif body:
            fields = [parameter(row.strip(), types) for row in body.group(3).split(";") if row.strip()]
            types[body.group(4)] = type(body.group(4), (ctypes.Structure,), {"_fields_": fields})
        elif function and function.group(1):
            types[function.group(3)] = function_type(function.group(2), function.group(4), types)
        elif function:
            declared = getattr(library, function.group(3))
            declared.restype = ctype(function.group(2), types)
            declared.argtypes = arguments(function.group(4), types)
            found[function.group(3)] = declared
    return {**types, **found}


globals().update(declare(find_header().read_text(), load_library()))
