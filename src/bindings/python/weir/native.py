"""Declares the library to ctypes by reading weir_ffi.h, so that nothing is written down twice.

All that the header declares is found here by its name: native.weir_limiter_take, native.WEIR_OK,
native.weir_decision. Calls release Python's lock, so threads wait for the store side by side.
"""
import ctypes
import os
import pathlib
import re
import subprocess

from .version import VERSION

NUMBERS = {"_Bool": ctypes.c_bool, "char": ctypes.c_char, "int": ctypes.c_int, "unsigned": ctypes.c_uint,
           "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
           "uint32_t": ctypes.c_uint32}
SONAME = f"libweir.so.{VERSION.split('.', maxsplit=1)[0]}"


def pkg_config_path():
    """Where pkg-config says that the library is; None where it knows of none."""
    try:
        said = subprocess.run(["pkg-config", "--variable=libdir", "weir"], capture_output=True, text=True,
                              check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.path.join(said.stdout.strip(), SONAME)


def load_library():
    """$WEIR_LIBRARY, else what the loader finds, else what pkg-config knows."""
    named = os.environ.get("WEIR_LIBRARY")
    if named:
        return ctypes.CDLL(named)
    try:
        return ctypes.CDLL(SONAME)
    except OSError as error:
        path = pkg_config_path()
        if path is not None and os.path.exists(path):
            return ctypes.CDLL(path)
        raise ImportError(f"{SONAME} is not installed ({error}); WEIR_LIBRARY=/path/to/libweir.so names "
                          "one that stands elsewhere") from None


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
    """A parameter or a member: its name and type. An array as a parameter is a pointer."""
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


def find(library, name):
    try:
        return getattr(library, name)
    except AttributeError:
        raise ImportError(f"{library._name} has no {name}: it is older than this package, which needs "
                          f"{VERSION}") from None


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
            declared = find(library, function.group(3))
            declared.restype = ctype(function.group(2), types)
            declared.argtypes = arguments(function.group(4), types)
            found[function.group(3)] = declared
    return {**types, **found}


globals().update(declare(pathlib.Path(__file__).with_name("weir_ffi.h").read_text(encoding="ascii"), load_library()))


def sized(kind):
    """A structure that says its own size."""
    return kind(size=ctypes.sizeof(kind))


def library_version() -> str:
    """The version of the library that was found."""
    return weir_version().decode()  # noqa: F821
