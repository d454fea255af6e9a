"""Of this package: the library's that it was made with."""

VERSION = "0.9.0"
