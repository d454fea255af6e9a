"""The version of this package: that of the library it was made with."""

VERSION = "0.9.0"
